package deploy_test

import (
	"context"
	"fmt"
	"log"

	"specrun/deploy"
	"specrun/patches"
	"specrun/remote"
)

// A dry run against this machine: what would be changed, and what not.
func ExampleDo() {
	profiler, err := patches.Lookup("profiling-v4")
	if err != nil {
		log.Fatal(err)
	}
	host := remote.Local(remote.LocalConfig{})
	defer host.Close()
	plan, _, err := deploy.Do(context.Background(), host,
		deploy.Where{Python: "~/ml-env/bin/python3"},
		deploy.Change{Add: []*patches.Patch{profiler}},
		deploy.DoOptions{DryRun: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range plan.Files {
		fmt.Println(f.Path, f.Verdict, f.Action)
	}
	fmt.Print(plan.Diff())
}
