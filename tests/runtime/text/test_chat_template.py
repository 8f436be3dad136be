import datetime

import pytest

from octavo_runtime.text.chat_template import ChatTemplate, TemplateError

USER = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            "{% for m in messages %}\n  {% if true %}\n{{ m.content }}\n  {% endif %}\n{% endfor %}",
            "Hi\n",
            id="blocks are trimmed",
        ),
        pytest.param("{{ bos_token }}{{ messages[0]['content'] }}", "<s>Hi", id="special tokens"),
        pytest.param("{% if add_generation_prompt %}go{% endif %}", "go", id="generation prompt"),
        pytest.param("{{ messages[0] | tojson }}", '{"role": "user", "content": "Hi"}', id="tojson"),
        pytest.param("{{ {'a': '<é>'} | tojson(indent=1) }}", '{\n "a": "<é>"\n}', id="tojson does not escape"),
        pytest.param(
            "{% for m in [1, 2, 3] %}{% if m == 2 %}{% break %}{% endif %}{{ m }}{% endfor %}", "1", id="loop controls"
        ),
        pytest.param("{{ tools is none and documents is none }}", "True", id="no tools"),
        pytest.param("{{ thinking }}", "deep", id="extra variables"),
    ],
)
def test_renders_as_template_authors_expect(source: str, expected: str) -> None:
    assert ChatTemplate(source, {"bos_token": "<s>"}).render(USER, thinking="deep") == expected


def test_knows_the_day() -> None:
    template = ChatTemplate("{{ strftime_now('%Y') }}", {})
    before = datetime.datetime.now().year
    assert before <= int(template.render(USER)) <= datetime.datetime.now().year


@pytest.mark.parametrize(
    ("source", "text"),
    [
        pytest.param("{{ raise_exception('roles must alternate') }}", "roles must alternate", id="its own words"),
        pytest.param("{{ messages[0].content + 1 }}", "cannot take these messages", id="a wrong type"),
        pytest.param("{{ messages[7].content.x }}", "no element 7", id="what is not there"),
        pytest.param("{{ messages.append(1) }}", "unsafe", id="the sandbox"),
        pytest.param("{{ ''.__class__.__mro__ }}", "unsafe", id="internals"),
    ],
)
def test_a_template_that_refuses_says_why(source: str, text: str) -> None:
    with pytest.raises(TemplateError, match=text):
        ChatTemplate(source, {}).render(USER)


def test_a_broken_template_names_the_line() -> None:
    with pytest.raises(TemplateError, match="line 2"):
        ChatTemplate("ok\n{% if %}", {})
