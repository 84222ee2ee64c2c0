package builds_test

import (
	"fmt"
	"os"

	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/modules"
)

// A projector was made for another core than the one in the graph.
func ExampleGraph_Check() {
	core, _ := modules.Parse("core-llm/module.yaml", []byte(`
name: core-llm
version: 3.1.0
type: core
abi: mm-abi-1.0
license: Apache-2.0
tokens: {d_model: 1536}
`))
	data, _ := os.ReadFile("../schemas/testdata/playbook/vision-proj/module.yaml")
	proj, _ := modules.Parse("vision-proj/module.yaml", data)
	graph, _ := builds.Parse("tiny.graph.yaml", []byte(`
core:
  llm: {ref: core-llm@3.1.0}
modalities:
  - enc: {ref: vision-enc@1.3.0}
    proj: {ref: vision-proj@1.2.0}
`))
	list := graph.Check(builds.Resolved{"core-llm": core, "vision-proj": proj})
	for _, d := range list {
		fmt.Println(d)
	}
	// Output:
	// tiny.graph.yaml:5:16: warning MM0320: unchecked reference: vision-enc@1.3.0
	// tiny.graph.yaml:6:17: error MM0305: width differs from the core: d_model is 1536 (core-llm@3.1.0 tokens.d_model), but 2048 (vision-proj@1.2.0 params.d_model)
}
