package talk_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/internal/testfiles"
	"mm-abi.org/mm/runtimes/talk"
)

// The switches of reasoning as templates of models have them.
const (
	thinkSwitch = `{{ messages[0].content }}<|im_start|>assistant
{% if enable_thinking is defined and enable_thinking is false %}<think>

</think>

{% endif %}`
	thinkVerbatim = `{{ 'Reasoning: ' ~ (reasoning_effort if reasoning_effort is defined else 'medium') }}
{{ messages[0].content }}`
	thinkLevels = `{% if reasoning_effort is defined and reasoning_effort not in ['none', 'high'] %}{{ raise_exception('level') }}{% endif %}{{ messages[0].content }}{{ '[effort]' if reasoning_effort == 'high' }}`
	thinkBranch = `{% set e = reasoning_effort if reasoning_effort is defined else 'medium' %}{% if e == 'low' %}short {% elif e == 'high' %}long {% endif %}{{ messages[0].content }}`
	thinkAlways = `{{ messages[0].content }}<think>
`
)

func TestCanReason(t *testing.T) {
	for name, c := range map[string]struct {
		template string
		want     talk.Reasoning
	}{
		"none":     {chatML[:strings.Index(chatML, "{% if m.reasoning")] + "{% endfor %}", talk.Reasoning{}},
		"no chat":  {"", talk.Reasoning{}},
		"switch":   {thinkSwitch, talk.Reasoning{Reasons: true, Switch: "enable_thinking"}},
		"other":    {strings.ReplaceAll(thinkSwitch, "enable_thinking", "thinking"), talk.Reasoning{Reasons: true, Switch: "thinking"}},
		"verbatim": {thinkVerbatim, talk.Reasoning{Reasons: true, Efforts: []string{"low", "medium", "high"}}},
		"levels":   {thinkLevels, talk.Reasoning{Reasons: true, Efforts: []string{"none", "high"}}},
		"branches": {thinkBranch, talk.Reasoning{Reasons: true, Efforts: []string{"low", "medium", "high"}}},
		"always":   {thinkAlways, talk.Reasoning{Reasons: true}},
	} {
		if d := cmp.Diff(c.want, newTalk(t, c.template).CanReason()); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestThought(t *testing.T) {
	on, off := talk.Thought{Mode: talk.ThinkOn}, talk.Thought{Mode: talk.ThinkOff}
	level := func(effort string) talk.Thought { return talk.Thought{Mode: talk.ThinkOn, Effort: effort} }
	lenient := func(t talk.Thought) talk.Thought { t.Lenient = true; return t }
	plain := `{{ messages[0].content }}`
	for _, c := range []struct {
		template string
		want     talk.Thought
		text     string // of the prompt, or of the error
		refused  bool
	}{
		{thinkSwitch, talk.Thought{}, "assistant\n", false},
		{thinkSwitch, on, "assistant\n", false},
		{thinkSwitch, level("high"), "assistant\n", false},
		{thinkSwitch, off, "assistant\n¦<think>¦\n\n¦</think>¦\n\n", false},
		{thinkVerbatim, level("high"), "Reasoning: high", false},
		{thinkVerbatim, on, "Reasoning: medium", false},
		{thinkVerbatim, level("xhigh"), "got xhigh, the model has low, medium, high", true},
		{thinkVerbatim, off, "the model always reasons", true},
		{thinkLevels, off, "u", false},
		{thinkLevels, level("high"), "u[effort]", false},
		{thinkLevels, level("low"), "the model has none, high", true},
		{thinkAlways, off, "the model always reasons", true},
		{thinkAlways, lenient(off), "¦<think>¦", false},
		{thinkAlways, level("low"), "¦<think>¦", false},
		{plain, on, "the model does not reason", true},
		{plain, lenient(on), "u", false},
		{plain, off, "u", false},
		{`{{ who }}{{ n }}`, talk.Thought{Vars: map[string]any{"who": "<think>", "n": 2.0}}, "<think>2", false},
		{plain, talk.Thought{Vars: map[string]any{"messages": "x"}}, "set by the conversation", true},
		{plain, talk.Thought{Vars: map[string]any{"x": []any{}}}, "variable x", true},
	} {
		tk, err := newTalk(t, c.template).With(c.want)
		if c.refused {
			var fault *talk.ThoughtError
			if !errors.As(err, &fault) || !strings.Contains(fault.Why, c.text) {
				t.Errorf("%+v: got %v, want %s", c.want, err, c.text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c.want, err)
			continue
		}
		p, err := tk.Render([]talk.Message{talk.Text(talk.User, "u")}, nil)
		if got := show(tk, p); err != nil || !strings.HasSuffix(strings.TrimRight(got, "u"), strings.TrimRight(c.text, "u")) && !strings.Contains(got, c.text) {
			t.Errorf("%+v: got %q, %v, want %q", c.want, got, err, c.text)
		}
	}
}

// TestTags reads reasoning between tags that are text: the vocabulary has no tokens for them.
func TestTags(t *testing.T) {
	tok := byteTokens(t, func(v *tokenizer.Vocabulary) {
		v.Tokens = slices.DeleteFunc(v.Tokens, func(x tokenizer.Token) bool { return strings.Contains(x.Text, "think>") })
	})
	tk, err := talk.New(tok, talk.Options{Template: `{{ messages[0].content }}{% if think %}<think>{% endif %}{# </think> #}`})
	if err != nil {
		t.Fatal(err)
	}
	thinking, err := tk.With(talk.Thought{Vars: map[string]any{"think": true}})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := thinking.Render([]talk.Message{talk.Text(talk.User, "x")}, nil); err != nil || !p.Thinking {
		t.Errorf("opened by the template: %+v, %v", p, err)
	}
	if p, err := tk.Render([]talk.Message{talk.Text(talk.User, "<think>")}, nil); err != nil || p.Thinking {
		t.Errorf("the words of a user: %+v, %v", p, err)
	}
	for _, c := range []struct {
		opt                 talk.ReadOptions
		in, text, reasoning string
	}{
		{talk.ReadOptions{}, "\n<think>a </thin</think>\n\n b", "b", "a </thin"},
		{talk.ReadOptions{Thinking: true}, "a</think>b<think>c</think>", "b<think>c</think>", "a"},
		{talk.ReadOptions{}, "<thinner>", "<thinner>", ""},
		{talk.ReadOptions{}, " <thi", " <thi", ""},
		{talk.ReadOptions{}, "a <think>b</think>", "a <think>b</think>", ""},
		{talk.ReadOptions{Thinking: true}, "never ends</th", "", "never ends</th"},
		{talk.ReadOptions{Plain: true}, "<think>a</think>", "<think>a</think>", ""},
		{talk.ReadOptions{Stop: []string{"a"}}, "<think>a</think>cab", "c", "a"},
	} {
		text, reasoning, calls, _ := read(tk, c.opt, c.in)
		if text != c.text || reasoning != c.reasoning || calls != nil {
			t.Errorf("%q: got %q, reasoning %q, %v, want %q, %q", c.in, text, reasoning, calls, c.text, c.reasoning)
		}
	}
}

// TestGoesOn continues the last turn of the model.
func TestGoesOn(t *testing.T) {
	user := talk.Text(talk.User, "hi")
	tk := newTalk(t, chatML).GoesOn()
	for _, c := range []struct {
		turns []talk.Message
		want  string // at the end
	}{
		{[]talk.Message{user, talk.Text(talk.Assistant, "He said <|im_end|> ")}, "¦<|im_start|>¦assistant\nHe said <|im_end|> "},
		{[]talk.Message{user, {Role: talk.Assistant, Parts: []talk.Part{{Type: abi.Text, Text: "a"}, {Type: abi.Text, Text: "b"}}}}, "assistant\na\nb"},
		{[]talk.Message{user, talk.Text(talk.Assistant, "He"), user}, "¦<|im_start|>¦user\nhi¦<|im_end|>¦\n¦<|im_start|>¦assistant\n"},
		{[]talk.Message{user, {Role: talk.Assistant, Calls: []talk.Call{{Name: "f"}}}}, "¦</tool_call>¦¦<|im_end|>¦\n¦<|im_start|>¦assistant\n"},
		{[]talk.Message{user}, "assistant\n"},
	} {
		p, err := tk.Render(c.turns, nil)
		if got := show(tk, p); err != nil || !strings.HasSuffix(got, c.want) {
			t.Errorf("got %q, %v, want %q", got, err, c.want)
		}
	}
	if _, err := newTalk(t, "{{ messages[0].content }}").GoesOn().Render([]talk.Message{user, talk.Text(talk.Assistant, "He")}, nil); err == nil {
		t.Error("a template drops the turn that goes on")
	}
}

// TestRealReasoning reads the templates of llama.cpp's source.
func TestRealReasoning(t *testing.T) {
	dir := testfiles.Native(t, "llama.cpp", "models", "templates")
	for name, want := range map[string]talk.Reasoning{
		"Qwen-Qwen3-0.6B":                          {Reasons: true, Switch: "enable_thinking"},
		"Qwen3.5-4B":                               {Reasons: true, Switch: "enable_thinking"},
		"HuggingFaceTB-SmolLM3-3B":                 {Reasons: true, Switch: "enable_thinking"},
		"GLM-4.6":                                  {Reasons: true, Switch: "enable_thinking"},
		"google-gemma-4-31B-it":                    {Reasons: true, Switch: "enable_thinking"},
		"openai-gpt-oss-120b":                      {Reasons: true, Efforts: []string{"low", "medium", "high"}},
		"deepseek-ai-DeepSeek-V3.1":                {Reasons: true, Switch: "enable_thinking"},
		"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": {Reasons: true, Switch: "enable_thinking"},
		"Qwen-QwQ-32B":                             {Reasons: true, Switch: "enable_thinking"},
		"meta-llama-Llama-3.1-8B-Instruct":         {},
	} {
		source, err := os.ReadFile(filepath.Join(dir, name+".jinja"))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, newTalk(t, string(source)).CanReason()); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
