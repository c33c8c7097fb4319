package experiments_test

import (
	"fmt"

	"specrun/experiments"
)

// A spec and the arguments of a sweep become a plan without asking any host.
func Example() {
	spec, err := experiments.LoadSpec("specrun.yaml", []byte(`
version: 1
name: steps
server:
  engine: sglang
  python: /opt/venv/bin/python3
  flags: {model-path: /m, speculative-num-steps: "${steps}", speculative-num-draft-tokens: "${draft}"}
params:
  steps: {default: 2}
  draft: {default: "${steps + 1}"}
where: draft <= 4
baseline: {flags: {"speculative-*": null}}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	axes, err := experiments.ParseArgs([]string{"steps=1..4"})
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, err := experiments.Engines(spec.Server.Engine)
	if err != nil {
		fmt.Println(err)
		return
	}
	experiment, err := experiments.Resolve(spec, experiments.Options{Axes: axes, Renderer: engine})
	if err != nil {
		fmt.Println(err)
		return
	}
	plan, err := experiments.NewPlan(experiment)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range plan.Launches {
		fmt.Println(l.Command)
	}
	fmt.Println(plan.Dropped[0].Cell, "is dropped by", plan.Dropped[0].Rule)
	// Output:
	// /opt/venv/bin/python3 -m sglang.launch_server --model-path /m --port 30000
	// /opt/venv/bin/python3 -m sglang.launch_server --model-path /m --speculative-num-steps 1 --speculative-num-draft-tokens 2 --port 30000
	// /opt/venv/bin/python3 -m sglang.launch_server --model-path /m --speculative-num-steps 2 --speculative-num-draft-tokens 3 --port 30000
	// /opt/venv/bin/python3 -m sglang.launch_server --model-path /m --speculative-num-steps 3 --speculative-num-draft-tokens 4 --port 30000
	// steps=4 is dropped by draft <= 4
}
