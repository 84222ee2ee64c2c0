package talk_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/runtimes/talk"
)

var harmonyWords = []string{"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|return|>", "<|call|>"}

// harmonyTalk returns a Talk in the dialect of harmony.
func harmonyTalk(t *testing.T) *talk.Talk {
	t.Helper()
	source, err := os.ReadFile("testdata/dialects/harmony.jinja")
	if err != nil {
		t.Fatal(err)
	}
	tok := stranger(t, harmonyWords)
	d, err := chat.Detect(string(source), nil, tok.Marks)
	if err != nil || d.Label != "harmony" {
		t.Fatalf("dialect %+v, %v", d, err)
	}
	tk, err := talk.New(tok, talk.Options{Template: string(source), Dialect: d})
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

// TestHarmonyCalls: the header of a message names the tool; an answer begins within a
// header, after the role.
func TestHarmonyCalls(t *testing.T) {
	const args = `{"a": 12, "b": 7}`
	add := dialectCalls[:1]
	think := "¦<|channel|>¦analysis¦<|message|>¦hm¦<|end|>¦¦<|start|>¦assistant"
	tk := harmonyTalk(t)
	for _, c := range []struct {
		name, in, text, reasoning string
		calls                     []talk.Call
	}{
		{name: "in the role", in: " to=functions.add¦<|channel|>¦commentary json¦<|message|>¦" + args + "¦<|call|>¦", calls: add},
		{name: "in the channel", in: "¦<|channel|>¦commentary to=functions.add ¦<|constrain|>¦json¦<|message|>¦" + args + "¦<|call|>¦", calls: add},
		{name: "no space before the type", in: "¦<|channel|>¦commentary to=functions.add¦<|constrain|>¦json¦<|message|>¦" + args + "¦<|call|>¦", calls: add},
		{name: "on the channel of reasoning", in: "¦<|channel|>¦analysis to=functions.add¦<|message|>¦" + args + "¦<|call|>¦", calls: add},
		{name: "after reasoning", in: think + " to=functions.add¦<|channel|>¦commentary¦<|message|>¦" + args + "¦<|call|>¦", reasoning: "hm", calls: add},
		{name: "after a preamble", in: "¦<|channel|>¦commentary¦<|message|>¦I add.¦<|end|>¦¦<|start|>¦assistant¦<|channel|>¦commentary to=functions.add¦<|message|>¦" + args + "¦<|call|>¦", text: "I add.", calls: add},
		{name: "two", in: "¦<|channel|>¦commentary to=functions.add¦<|message|>¦" + args + "¦<|end|>¦¦<|start|>¦assistant¦<|channel|>¦commentary to=functions.add¦<|message|>¦" + args + "¦<|call|>¦", calls: []talk.Call{add[0], add[0]}},
		{name: "ended otherwise", in: "¦<|channel|>¦commentary to=functions.add¦<|message|>¦" + args + "¦<|return|>¦", calls: add},
		{name: "cut", in: "¦<|channel|>¦commentary to=functions.add¦<|message|>¦{\"a\": 1", calls: []talk.Call{{Fault: "parsing the arguments of \"add\": incomplete JSON", Block: `{"a": 1`}}},
		{name: "no object", in: "¦<|channel|>¦commentary to=functions.add¦<|message|>¦[1]¦<|call|>¦", calls: []talk.Call{{Fault: "parsing the arguments of \"add\": not a JSON object", Block: "[1]"}}},
		{name: "a tool that was not offered", in: "¦<|channel|>¦commentary to=browser.search¦<|message|>¦{}¦<|call|>¦", calls: []talk.Call{{Name: "browser.search", Arguments: json.RawMessage("{}")}}},
		{name: "to itself", in: "¦<|channel|>¦commentary to=assistant¦<|channel|>¦final¦<|message|>¦so¦<|return|>¦", text: "so"},
		{name: "an answer", in: "¦<|channel|>¦final¦<|message|>¦to=functions.add¦<|return|>¦", text: "to=functions.add"},
		{name: "no header", in: "so it is", text: "so it is"},
		{name: "a header that is none", in: " toad", text: " toad"},
	} {
		text, reasoning, calls, _ := read(tk, talk.ReadOptions{Tools: []string{"add"}}, c.in)
		if text != c.text || reasoning != c.reasoning {
			t.Errorf("%s: got %q, %q, want %q, %q", c.name, text, reasoning, c.text, c.reasoning)
		}
		if d := cmp.Diff(c.calls, calls); d != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, d)
		}
	}
}

// TestHarmonyTurns: each call of a turn becomes a turn with its result, and the words
// around it become reasoning: the template renders no more.
func TestHarmonyTurns(t *testing.T) {
	tk := harmonyTalk(t)
	turns := dialectTurns(2)
	turns[1].Reasoning, turns[1].Parts = "hm", talk.Text(talk.Assistant, "I add.").Parts
	p, err := tk.Render(turns, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(show(tk, p), "¦", "")
	want := `<|start|>system<|message|>Reasoning: low

# Valid channels: analysis, commentary, final.<|end|><|start|>user<|message|>What is 12+7?<|end|>` +
		"<|start|>assistant<|channel|>analysis<|message|>hm\nI add.<|end|>" +
		`<|start|>assistant to=functions.add<|channel|>commentary json<|message|>{"a": 12, "b": 7}<|call|>` +
		`<|start|>functions.add to=assistant<|channel|>commentary<|message|>"{\"ok\":true,\"result\":19}"<|end|>` +
		`<|start|>assistant to=functions.echo<|channel|>commentary json<|message|>{"text": "a <b> \"c\" ]}, d"}<|call|>` +
		`<|start|>functions.echo to=assistant<|channel|>commentary<|message|>"{\"ok\":true,\"result\":\"a\"}"<|end|><|start|>assistant`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	// Results with ids in another order, and a call without a result.
	turns = dialectTurns(2)
	turns[1].Calls = []talk.Call{turns[1].Calls[0], turns[1].Calls[1], {ID: "c", Name: "add"}}
	turns[1].Calls[0].ID, turns[1].Calls[1].ID = "a", "b"
	turns[2].CallID, turns[3].CallID = "b", "a"
	if p, err = tk.Render(turns, nil); err != nil {
		t.Fatal(err)
	}
	got = strings.ReplaceAll(show(tk, p), "¦", "")
	if i, j := strings.Index(got, `functions.add to=assistant<|channel|>commentary<|message|>"{\"ok\":true,\"result\":\"a\"}"`), strings.Index(got, `to=functions.add<|channel|>commentary json<|message|>{}<|call|><|start|>assistant`); i < 0 || j < i {
		t.Errorf("got %s", got)
	}
	ids, _, err := tk.Between(dialectTurns(1), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tk.Tokenizer().Decode(ids, tokenizer.DecodeOptions{Special: true}), `<|start|>functions.add to=assistant<|channel|>commentary<|message|>"{\"ok\":true,\"result\":19}"<|end|><|start|>assistant`; got != want {
		t.Errorf("after the call: got %s, want %s", got, want)
	}
}
