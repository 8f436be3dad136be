// Judges objects as Argo CD does: its own rules, its own Lua machine, with a script from argocd-cm.
//
// Reads {"key": "group/Kind", "script": "…", "objects": […]} from its input and prints one {"status", "message"} a line for each.
package main

import (
	"encoding/json"
	"log"
	"os"

	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/lua"
	"github.com/argoproj/gitops-engine/pkg/health"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func main() {
	var asked struct {
		Key     string
		Script  string
		Objects []map[string]any
	}
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		log.Fatal(err)
	}
	overrides := lua.ResourceHealthOverrides{asked.Key: v1alpha1.ResourceOverride{HealthLua: asked.Script}}
	answers := json.NewEncoder(os.Stdout)
	for _, object := range asked.Objects {
		found, err := health.GetResourceHealth(&unstructured.Unstructured{Object: object}, overrides)
		if err != nil {
			log.Fatal(err)
		}
		if found == nil {
			log.Fatalf("no script was found under %s", asked.Key)
		}
		if err := answers.Encode(found); err != nil {
			log.Fatal(err)
		}
	}
}
