package runner_test

import (
	"strings"
	"testing"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
)

// A chat template that does not parse is a fault of the file, not of the run, and the model
// continues plain text without it.
func TestUnreadableTemplate(t *testing.T) {
	for name, template := range map[string]string{
		"syntax": "{% for m in %}", "filter": "{{ messages[0].content | frobnicate }}", "of another language": "{{ if .System }}{{ .System }}{{ end }}",
	} {
		b := build(t)
		b.Assembly.Modalities = nil
		b.Template = template
		for _, raw := range []bool{false, true} {
			r, err := runner.Open(t.Context(), b, runner.Options{Engines: []runtimes.Engine{script(t, "so")}, Raw: raw})
			if err != nil {
				t.Fatal(err)
			}
			_, err = r.Answer(t.Context(), ask("q", 4), nil)
			list, _ := diag.From(err)
			switch {
			case raw && err != nil:
				t.Errorf("%s, without the template: %v", name, err)
			case !raw && (len(list) != 1 || list[0].Code != diag.NotRunnable || !strings.Contains(list[0].Hint, "--raw") || !strings.HasSuffix(list[0].Pos.File, ".gguf")):
				t.Errorf("%s: got %v, %+v", name, err, list)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
