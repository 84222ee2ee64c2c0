package talk_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/testfiles"
)

func TestHeads(t *testing.T) {
	for name, c := range map[string]struct {
		template string
		want     bool
	}{
		"none":      {"", true},
		"prompt":    {chatML, true},
		"no prompt": {strings.Split(chatML, "{% if add_generation_prompt")[0], false},
		"always":    {strings.Replace(chatML, "{% if add_generation_prompt %}", "{% if messages[-1].role == 'user' %}", 1), true},
		"brackets":  {"{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %} {{ m.content }}</s>{% endif %}{% endfor %}", true},
		"no answer": {"{{ messages[0].content }}", true},
		"fault":     {"{{ raise_exception('no') }}", true},
	} {
		if got := newTalk(t, c.template).Heads(); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// TestRealHeads reads the templates of llama.cpp's source.
func TestRealHeads(t *testing.T) {
	dir := testfiles.Native(t, "llama.cpp", "models", "templates")
	files, err := filepath.Glob(filepath.Join(dir, "*.jinja"))
	if err != nil || len(files) < 20 {
		t.Fatalf("%d templates in %s: %v", len(files), dir, err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !newTalk(t, string(source)).Heads() {
			t.Errorf("%s does not begin a turn of the model", filepath.Base(file))
		}
	}
}
