package talk

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/chat"
)

// abilities are the parts of a conversation that a chat template renders by itself.
type abilities struct {
	system  bool // a system turn
	tools   bool // the list of tools
	listed  bool // the list of tools as a key of the system turn
	calls   bool // the calls of an assistant
	results bool // the turn of a tool
}

// The words of the probes.
const (
	probeWord   = "zqxword"
	probeTool   = "zqxtool"
	probeResult = "zqxresult"
	probeID     = "call00000"
)

// roleWords are how templates name the role of a tool.
var roleWords = []string{`'tool'`, `"tool"`, `'ipython'`, `"ipython"`, `'tool_response'`, `"tool_response"`}

// try renders a short conversation at a fixed time, so that two texts differ only by their
// options. It reports false if the template refuses the conversation.
func (t *Talk) try(opt chat.Options, turns ...chat.Message) (string, bool) {
	opt.BOS, opt.EOS, opt.Now = t.piece(t.tok.Special().BOS), t.piece(t.tok.Special().EOS), time.Unix(0, 1).UTC()
	text, err := t.template.Render(turns, opt)
	return text, err == nil
}

// probe renders short conversations and looks for their words.
func (t *Talk) probe() abilities {
	if t.template == nil {
		return abilities{system: true}
	}
	shown := func(word string, tools bool, turns ...chat.Message) bool {
		opt := chat.Options{AddGenerationPrompt: true}
		if tools {
			opt.Tools = []json.RawMessage{json.RawMessage(`{"type":"function","function":{"name":"` + probeTool + `","description":"d","parameters":{"type":"object","properties":{}}}}`)}
		}
		text, ok := t.try(opt, turns...)
		return ok && strings.Contains(text, word)
	}
	user := chat.Message{Role: "user", Content: "u"}
	called := chat.Message{Role: "assistant", ToolCalls: []chat.ToolCall{{ID: probeID, Name: probeTool, Arguments: json.RawMessage(`{"` + probeWord + `":1}`)}}}
	result := chat.Message{Role: "tool", Name: probeTool, ToolCallID: probeID, Content: probeResult}
	a := abilities{
		system: shown(probeWord, false, chat.Message{Role: "system", Content: probeWord}, user),
		tools:  shown(probeTool, true, user),
		calls:  shown(probeWord, true, user, called, result),
	}
	a.listed = !a.tools && shown(probeTool, false, chat.Message{Role: "system", Content: "s", Tools: probeTool}, user)
	answered := chat.Message{Role: "assistant", Content: "a"}
	if a.calls {
		answered = called
	}
	a.results = shown(probeResult, a.tools, user, answered, result) &&
		slices.ContainsFunc(roleWords, func(w string) bool { return strings.Contains(t.source, w) })
	return a
}

// guide returns the conversation with text for the parts that the template does not
// render: the description of the tools and their results. Calls are written by [draft.written].
func (d *draft) guide(messages []Message, tools []Definition) []Message {
	out := slices.Clone(messages)
	if d.dialect.IDs > 0 {
		number(out, d.dialect.IDs)
	}
	if len(tools) > 0 && !d.takes.tools {
		out = d.describe(out, tools)
	}
	if !d.takes.results {
		out = resultTurns(out)
	}
	return out
}

// describe adds the description of the tools to the system turn, or to the first turn
// of the user.
func (d *draft) describe(messages []Message, tools []Definition) []Message {
	if d.takes.listed {
		if len(messages) == 0 || messages[0].Role != System {
			messages = append([]Message{Text(System, "")}, messages...)
		}
		return messages
	}
	text := Part{Type: abi.Text, Text: d.manual(tools)}
	if d.takes.system {
		if len(messages) == 0 || messages[0].Role != System {
			return append([]Message{{Role: System, Parts: []Part{text}}}, messages...)
		}
		text.Text = "\n" + text.Text
		messages[0].Parts = append(slices.Clone(messages[0].Parts), text)
		return messages
	}
	for i := range messages {
		if messages[i].Role == User {
			text.Text += "\n"
			messages[i].Parts = append([]Part{text}, messages[i].Parts...)
			break
		}
	}
	return messages
}

// manual describes the tools and the form of a call.
func (d *draft) manual(tools []Definition) string {
	var b strings.Builder
	b.WriteString("You can call these tools:\n")
	for _, t := range tools {
		b.Write(function(t))
		b.WriteByte('\n')
	}
	b.WriteString("The result of a call is in the next turn. Call a tool only if the answer needs it.\n")
	before, after := d.dialect.Around()
	example := fmt.Sprintf(`{"%s": "NAME", "%s": {"ARGUMENT": VALUE}}`, d.dialect.Name, d.dialect.Arguments)
	switch d.dialect.Form {
	case chat.Bare:
		fmt.Fprintf(&b, "To call a tool, answer with one JSON object and nothing else:\n%s", example)
	case chat.Named:
		fmt.Fprintf(&b, "To call a tool, write\n%sNAME%s{\"ARGUMENT\": VALUE}", d.dialect.Open, chat.Args)
	case chat.List:
		fmt.Fprintf(&b, "To call tools, answer with\n%s%s[%s]%s%s", d.dialect.Open, before, example, after, d.dialect.Close)
	default:
		fmt.Fprintf(&b, "To call a tool, write\n%s%s%s%s%s", d.dialect.Open, before, example, after, d.dialect.Close)
	}
	return b.String()
}

// function returns a tool as the JSON that templates read.
func function(t Definition) json.RawMessage {
	raw, err := json.Marshal(struct {
		Type     string     `json:"type"`
		Function Definition `json:"function"`
	}{"function", t})
	if err != nil {
		return json.RawMessage("null") // parameters that are not JSON; the template's list reports them
	}
	return raw
}

// resultTurns makes the results of tools turns of the user, those of one turn's calls
// one turn.
func resultTurns(messages []Message) []Message {
	var out []Message
	for i, m := range messages {
		if m.Role != Tool {
			out = append(out, m)
			continue
		}
		text := Part{Type: abi.Text, Text: "<tool_response>\n" + plain(m.Parts) + "\n</tool_response>"}
		if i > 0 && messages[i-1].Role == Tool {
			last := &out[len(out)-1]
			last.Parts = append(last.Parts, text)
			continue
		}
		out = append(out, Message{Role: User, Parts: []Part{text}})
	}
	return out
}

// plain joins the texts of parts.
func plain(parts []Part) string {
	var texts []string
	for _, p := range parts {
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n")
}

// number sets ids of n characters for calls and for their results: those of the
// model if they have that length.
func number(messages []Message, n int) {
	count := 0
	var open []string // ids of calls without a result
	renamed := map[string]string{}
	for i := range messages {
		m := &messages[i]
		m.Calls = slices.Clone(m.Calls)
		for j := range m.Calls {
			c := &m.Calls[j]
			if count++; len(c.ID) != n {
				id := fmt.Sprintf("call%0*d", n-len("call"), count)
				if c.ID != "" {
					renamed[c.ID] = id
				}
				c.ID = id
			}
			open = append(open, c.ID)
		}
		if m.Role != Tool {
			continue
		}
		if id, ok := renamed[m.CallID]; ok {
			m.CallID = id
		}
		if len(m.CallID) != n && len(open) > 0 {
			m.CallID = open[0]
		}
		open = slices.DeleteFunc(open, func(id string) bool { return id == m.CallID })
	}
}

// written returns the calls of a turn as text, for a template that does not render
// them.
func (d *draft) written(m Message) string {
	if !d.dialect.Guided || d.takes.calls || len(m.Calls) == 0 {
		return ""
	}
	text := d.dialect.Write(m.Calls, d.dialect.Open, d.dialect.Close, func(raw json.RawMessage) json.RawMessage { return d.guard.json(raw, d.letter) })
	if d.mark {
		text += string(d.cut)
	}
	return text
}

// errForm reports a template whose calls end otherwise than those of the dialect.
var errForm = errors.New("the chat template does not write calls in the form of its dialect")

// after returns the tokens that the model reads after the calls of the turn at an index,
// up to the end of the conversation.
func (t *Talk) after(messages []Message, last int, tools []Definition) (ids []int32, thinking bool, err error) {
	d, err := t.newDraft(words(messages, tools))
	if err != nil {
		return nil, false, err
	}
	messages = slices.Clone(messages)
	if d.mark = !t.takes.calls; !d.mark { // the rendered arguments of the last call hold the mark
		m := &messages[last]
		m.Calls = slices.Clone(m.Calls)
		mark, err := json.Marshal(map[string]string{string(d.cut): string(d.cut)})
		if err != nil {
			return nil, false, fmt.Errorf("marking a call: %w", err)
		}
		m.Calls[len(m.Calls)-1].Arguments = mark
	}
	text, err := d.text(messages, tools)
	if err != nil {
		return nil, false, err
	}
	text = strings.ReplaceAll(text, escape(d.cut), string(d.cut))
	at := strings.LastIndex(text, string(d.cut))
	if at < 0 {
		return nil, false, errForm
	}
	text = text[at+len(string(d.cut)):]
	if t.takes.calls {
		end, ok := t.dialect.Rest(text)
		if !ok {
			return nil, false, errForm
		}
		text = text[end:]
	}
	ids = d.encode(text)
	return ids, t.thinks(text), nil
}
