package train

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// The files of the trainer are independent of language models and their data:
// they import neither.
func TestTrainerKnowsNoTask(t *testing.T) {
	for _, file := range []string{"train.go", "task.go", "run.go", "optimizer.go", "after.go", "event.go", "seal.go", "checkpoint.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			for _, task := range []string{"train/llm", "train/dataset", "core/tokenizer", "core/gguf"} {
				if strings.Contains(i.Path.Value, task) {
					t.Errorf("%s imports %s", file, i.Path.Value)
				}
			}
		}
	}
}
