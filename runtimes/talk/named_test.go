package talk_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/runtimes/talk"
)

// namedTalk returns a Talk in the dialect of names, whose vocabulary has [THINK] as the
// only marker of reasoning.
func namedTalk(t *testing.T, source string) *talk.Talk {
	t.Helper()
	tok := byteTokens(t, func(v *tokenizer.Vocabulary) {
		v.AddBOS = false
		v.Tokens = slices.DeleteFunc(v.Tokens, func(x tokenizer.Token) bool {
			return strings.Contains(x.Text, "tool") || strings.Contains(x.Text, "<|") || strings.Contains(x.Text, "think")
		})
		for _, text := range namedWords {
			v.Tokens = append(v.Tokens, tokenizer.Token{Text: text, Type: tokenizer.Control})
		}
	})
	d, err := chat.Detect(source, nil, tok.Marks)
	if err != nil || d.Label != "mistral-named" {
		t.Fatalf("dialect %+v, %v", d, err)
	}
	tk, err := talk.New(tok, talk.Options{Template: source, Dialect: d})
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

// TestNamedReasoning: [THINK] and [/THINK] surround reasoning, which may precede a call.
func TestNamedReasoning(t *testing.T) {
	tk := namedTalk(t, "[TOOL_CALLS] [ARGS]")
	text, reasoning, calls, _ := read(tk, talk.ReadOptions{Tools: []string{"add"}}, `¦[THINK]¦hm¦[/THINK]¦so ¦[TOOL_CALLS]¦add¦[ARGS]¦{"a":12,"b":7}`)
	if d := cmp.Diff(dialectCalls[:1], calls); d != "" || text != "so " || reasoning != "hm" {
		t.Errorf("got %q, %q (-want +got)\n%s", text, reasoning, d)
	}
	if tk := namedTalk(t, "[TOOL_CALLS] [ARGS]{% if add_generation_prompt %}[THINK]{% endif %}"); true {
		p, err := tk.Render([]talk.Message{talk.Text(talk.User, "q")}, nil)
		if err != nil || !p.Thinking {
			t.Errorf("an opened reasoning: got %+v, %v", p, err)
		}
	}
}

// today is the call of a function that the reference lacks.
var today = regexp.MustCompile(`strftime_now\([^)]*\)`)

// TestNamedTemplates: conversations are rendered by the templates of models in this
// dialect as Jinja renders them, and the tokens after the calls are the rest.
func TestNamedTemplates(t *testing.T) {
	dir := testfiles.Native(t, "llama.cpp", "models", "templates")
	render := testfiles.Jinja(t)
	for _, file := range []string{
		"Mistral-Small-3.2-24B-Instruct-2506.jinja", "unsloth-mistral-Devstral-Small-2507.jinja", "mistralai-Ministral-3-14B-Reasoning-2512.jinja",
	} {
		source, err := os.ReadFile(dir + "/" + file)
		if err != nil {
			t.Fatal(err)
		}
		source = today.ReplaceAll(source, []byte("'2026-01-01'"))
		tk := namedTalk(t, string(source))
		for n := 1; n <= 2; n++ {
			turns := append([]talk.Message{talk.Text(talk.System, "Be brief.")}, dialectTurns(n)...)
			var messages []map[string]any
			for i, m := range turns {
				item := map[string]any{"role": string(m.Role), "content": ""}
				if len(m.Parts) > 0 {
					item["content"] = m.Parts[0].Text
				}
				if m.Role == talk.Tool {
					item["tool_call_id"] = []string{"call00001", "call00002"}[i-3]
				}
				for k, call := range m.Calls {
					list, _ := item["tool_calls"].([]any)
					item["tool_calls"] = append(list, map[string]any{"id": []string{"call00001", "call00002"}[k], "type": "function", "function": map[string]any{"name": call.Name, "arguments": call.Arguments}})
				}
				messages = append(messages, item)
			}
			var tools []any
			for _, d := range dialectTools {
				tools = append(tools, struct {
					Type     string          `json:"type"`
					Function talk.Definition `json:"function"`
				}{"function", d})
			}
			want, failed := render(string(source), map[string]any{"messages": messages, "tools": tools, "bos_token": "<bos>", "eos_token": "<eos>", "add_generation_prompt": true})
			if failed != "" {
				t.Errorf("%s: %s", file, failed)
				continue
			}
			p, err := tk.Render(turns, dialectTools)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			got := show(tk, p)
			for _, word := range []string{"[TOOL_CALLS]", "[ARGS]", "[TOOL_RESULTS]"} {
				if strings.Count(got, "¦"+word+"¦") != n {
					t.Errorf("%s: %d tokens %s, want %d", file, strings.Count(got, "¦"+word+"¦"), word, n)
				}
			}
			got = strings.ReplaceAll(got, "¦", "")
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s (-want +got)\n%s", file, d)
			}
			ids, _, err := tk.Between(turns, dialectTools)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			tail := tk.Tokenizer().Decode(ids, tokenizer.DecodeOptions{Special: true})
			if head, ok := strings.CutSuffix(got, tail); !ok || !strings.HasPrefix(tail, "<eos>[TOOL_RESULTS]") || !strings.HasSuffix(head, "}") {
				t.Errorf("%s: after the calls: %q", file, tail)
			}
		}
	}
}
