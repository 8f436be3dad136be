// Judges objects by a health script in Argo CD's Lua: the interpreter that Argo CD uses, with no libraries but those that it opens by
// default (base, package and table: no strings, no files) and its limit of one second. Argo CD's own code would bring a thousand
// packages of Kubernetes with it.
//
// Reads {"script": "…", "objects": […]} from its input and prints one {"status", "message"} a line for each.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"slices"
	"time"

	lua "github.com/yuin/gopher-lua"
	luajson "layeh.com/gopher-json"
)

// What a script may answer; everything else counts as Unknown.
var words = []string{"Unknown", "Progressing", "Suspended", "Healthy", "Degraded", "Missing"}

type health struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func main() {
	var asked struct {
		Script  string
		Objects []map[string]any
	}
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		log.Fatal(err)
	}
	answers := json.NewEncoder(os.Stdout)
	for _, object := range asked.Objects {
		found, err := judge(asked.Script, object)
		if err != nil {
			log.Fatal(err)
		}
		if err := answers.Encode(found); err != nil {
			log.Fatal(err)
		}
	}
}

func judge(script string, object map[string]any) (health, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
	} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return health{}, err
		}
	}
	limit, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	state.SetContext(limit)
	state.SetGlobal("obj", luajson.DecodeValue(state, object))
	if err := state.DoString(script); err != nil {
		return health{}, err
	}
	text, err := luajson.Encode(state.Get(-1))
	if err != nil {
		return health{}, err
	}
	var found health
	if err := json.Unmarshal(text, &found); err != nil {
		return health{}, err
	}
	if !slices.Contains(words, found.Status) {
		return health{Status: "Unknown", Message: "the script returned an invalid health status"}, nil
	}
	return found, nil
}
