package chat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/core/gguf"
	"mm-abi.org/mm/internal/testfiles"
)

var weather = json.RawMessage(`{"type":"function","function":{"name":"get_weather","description":"The weather \"now\" in <a city>","parameters":{"type":"object","properties":{"city":{"type":"string","description":"Its name"},"days":{"type":"integer","enum":[1,2,3]},"unit":{"type":["string","null"],"default":"C"}},"required":["city"]},"return":{"type":"string"}}}`)

var (
	sum = json.RawMessage(`{"type":"function","function":{"name":"sum","description":"Σ of numbers, <b>all</b>\n","parameters":{"type":"object","properties":{"of":{"type":"array","items":{"type":"number","minimum":-1.5e3}}},"additionalProperties":false}}}`)
	now = json.RawMessage(`{"type":"function","function":{"name":"now","description":"","parameters":{"type":"object","properties":{}}}}`)
)

// conversations are the inputs of templates.
var conversations = []struct {
	name     string
	messages []Message
	opt      Options
}{
	{"one question", []Message{{Role: "user", Content: "  What is 2+2?\n"}}, Options{AddGenerationPrompt: true}},
	{"several turns", []Message{
		{Role: "system", Content: "You are terse."}, {Role: "user", Content: "Hi"}, {Role: "assistant", Content: "Hello! "},
		{Role: "user", Content: "Καλημέρα, 世界 <b>&\"'"}, {Role: "assistant", Content: "<think>\nhm\n</think>\n\nYes."}, {Role: "user", Content: "Bye"},
	}, Options{AddGenerationPrompt: true}},
	{"without a prompt", []Message{{Role: "user", Content: "Hi"}, {Role: "assistant", Content: "Hello!"}}, Options{}},
	{"tools", []Message{{Role: "system", Content: "Use tools."}, {Role: "user", Content: "Weather?"}},
		Options{AddGenerationPrompt: true, Tools: []json.RawMessage{weather}}},
	{"a tool call", []Message{
		{Role: "user", Content: "Weather in Athens?"},
		{Role: "assistant", ToolCalls: []ToolCall{{ID: "call00001", Name: "get_weather", Arguments: json.RawMessage(`{"city":"Athens","days":2}`)}}},
		{Role: "tool", Name: "get_weather", ToolCallID: "call00001", Content: `{"temp": 31.5}`},
		{Role: "assistant", Content: "31.5 degrees."}, {Role: "user", Content: "Thanks"},
	}, Options{AddGenerationPrompt: true, Tools: []json.RawMessage{weather}}},
	{"several calls", []Message{
		{Role: "system", Content: "Use tools."}, {Role: "user", Content: "Both?"},
		{Role: "assistant", Content: "I look.", ToolCalls: []ToolCall{
			{ID: "call00001", Name: "get_weather", Arguments: json.RawMessage(`{"city":"Αθήνα <&> \"x\"\n","days":2,"unit":null}`)},
			{ID: "call00002", Name: "sum", Arguments: json.RawMessage(`{"of":[1,2.5,-3,1e3,true,{"z":[],"a":{}}]}`)},
		}},
		{Role: "tool", Name: "get_weather", ToolCallID: "call00001", Content: `{"temp": 31.5, "sky": "καθαρός </tool_response>"}`},
		{Role: "tool", Name: "sum", ToolCallID: "call00002", Content: "1000.5\n"},
		{Role: "assistant", ToolCalls: []ToolCall{{ID: "call00003", Name: "now", Arguments: json.RawMessage(`{}`)}}},
		{Role: "tool", Name: "now", ToolCallID: "call00003", Content: ""},
	}, Options{AddGenerationPrompt: true, Tools: []json.RawMessage{weather, sum, now}}},
	{"an image", []Message{{Role: "user", Parts: []Part{{Type: "image"}, {Type: "text", Text: "What is this?"}}}}, Options{AddGenerationPrompt: true}},
	{"reasoning", []Message{{Role: "user", Content: "1+1?"}, {Role: "assistant", Reasoning: "Easy.", Content: "2"}, {Role: "user", Content: "Sure?"}},
		Options{AddGenerationPrompt: true, Vars: map[string]any{"enable_thinking": false}}},
	{"roles out of order", []Message{{Role: "assistant", Content: "a"}, {Role: "assistant", Content: "b"}}, Options{}},
	{"nothing", nil, Options{AddGenerationPrompt: true}},
}

// templates returns the chat templates of llama.cpp's source and of the local
// models.
func templates(t *testing.T) map[string]string {
	t.Helper()
	dir := testfiles.Native(t, "llama.cpp", "models")
	found := make(map[string]string)
	files, err := filepath.Glob(filepath.Join(dir, "templates", "*.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimSuffix(filepath.Base(path), ".jinja")] = string(b)
	}
	models, err := filepath.Glob(filepath.Join(dir, "*.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	models = append(models, filepath.Join(testfiles.Native(t, "models"), "SmolLM2-135M-Instruct.Q4_1.gguf"))
	for _, path := range models {
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := gguf.Get[string](f, gguf.KeyChatTemplate); err == nil {
			found[filepath.Base(path)] = s
		}
		f.Close()
	}
	return found
}

// TestTemplates renders real templates and compares with Jinja.
func TestTemplates(t *testing.T) {
	render := testfiles.Jinja(t)
	all := templates(t)
	if len(all) < 60 {
		t.Errorf("only %d templates", len(all))
	}
	texts, refusals := 0, 0
	for name, source := range all {
		t.Run(name, func(t *testing.T) {
			tmpl, err := Parse(source)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range conversations {
				opt := c.opt
				opt.BOS, opt.EOS = "<s>", "</s>"
				want, failed := render(source, variables(c.messages, opt))
				got, err := tmpl.Render(c.messages, opt)
				switch {
				case strings.Contains(failed, "generator is not JSON"): // a list here
				case failed != "" && err == nil:
					t.Errorf("%s: rendered, Jinja fails with %s\n%s", c.name, failed, got)
				case failed == "" && err != nil:
					t.Errorf("%s: %v, Jinja renders\n%.300s", c.name, err, want)
				case failed == "" && got != want:
					i := 0
					for i < len(got) && i < len(want) && got[i] == want[i] {
						i++
					}
					t.Errorf("%s: differs from byte %d\n got  %.150q\n want %.150q", c.name, i, got[max(0, i-20):], want[max(0, i-20):])
				case failed != "":
					refusals++
				default:
					texts++
				}
			}
		})
	}
	t.Logf("%d templates: %d texts equal, %d refused by both", len(all), texts, refusals)
}
