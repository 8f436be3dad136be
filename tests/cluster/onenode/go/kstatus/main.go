// Watches one object over its whole life and prints, for every state of it that the API server tells, what kstatus says of it.
//
// Usage: kstatus KUBECONFIG CONTEXT RESOURCE.VERSION.GROUP NAMESPACE NAME. One JSON object a line, until it is told to end.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"os/signal"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	retry "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type line struct {
	Status     string         `json:"status"`
	Message    string         `json:"message"`
	Generation int64          `json:"generation"`
	Object     map[string]any `json:"object"`
}

func main() {
	if len(os.Args) != 6 {
		log.Fatal("usage: kstatus KUBECONFIG CONTEXT RESOURCE.VERSION.GROUP NAMESPACE NAME")
	}
	resource, _ := schema.ParseResourceArg(os.Args[3])
	if resource == nil {
		log.Fatalf("%s is not RESOURCE.VERSION.GROUP", os.Args[3])
	}
	life, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := follow(life, client(os.Args[1], os.Args[2]).Resource(*resource).Namespace(os.Args[4]), os.Args[5]); err != nil {
		log.Fatal(err)
	}
}

func client(kubeconfig, cluster string) *dynamic.DynamicClient {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: cluster}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		log.Fatal(err)
	}
	return dynamic.NewForConfigOrDie(config)
}

// follow prints what comes from now on; the object need not exist yet.
func follow(life context.Context, objects dynamic.ResourceInterface, name string) error {
	only := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
	there, err := objects.List(life, only)
	if err != nil {
		return err
	}
	// Goes on where it was when the connection ends.
	watcher := &cache.ListWatch{WatchFuncWithContext: func(until context.Context, options metav1.ListOptions) (watch.Interface, error) {
		options.FieldSelector = only.FieldSelector
		return objects.Watch(until, options)
	}}
	events, err := retry.NewRetryWatcherWithContext(life, there.GetResourceVersion(), watcher)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(os.Stdout)
	if err := lines.Encode(line{Status: "Watching"}); err != nil {
		return err
	}
	for event := range events.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return nil
		}
		told := line{Status: "NotFound", Generation: object.GetGeneration(), Object: object.Object}
		if event.Type != watch.Deleted {
			found, err := status.Compute(object)
			if err != nil {
				return err
			}
			told.Status, told.Message = found.Status.String(), found.Message
		}
		if err := lines.Encode(told); err != nil {
			return err
		}
	}
	return nil
}
