package talk

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/chat"
	"mm-abi.org/mm/core/tokenizer"
)

// draft is a text under construction: a template's, with untrusted words in it. The
// runes letter and hole occur in neither; letter follows a rune that must not become
// a token, hole encloses the index of a part.
type draft struct {
	*Talk
	letter, hole rune
	holes        []*Part
}

func (t *Talk) newDraft(outside []string) (*draft, error) {
	runes, err := unused(append(outside, t.source), 2)
	if err != nil {
		return nil, err
	}
	return &draft{Talk: t, letter: runes[0], hole: runes[1]}, nil
}

// words returns all untrusted texts of a conversation.
func words(messages []Message, tools []Definition) []string {
	var out []string
	for _, m := range messages {
		out = append(out, m.Reasoning, m.Name, m.CallID)
		for _, p := range m.Parts {
			out = append(out, p.Text)
		}
		for _, c := range m.Calls {
			out = append(out, c.ID, c.Name, string(c.Arguments))
		}
	}
	for _, d := range tools {
		out = append(out, d.Name, d.Description, string(d.Parameters))
	}
	return out
}

// outside marks untrusted words so that they stay text.
func (d *draft) outside(text string) string {
	if d.special {
		return text
	}
	return d.guard.mark(text, d.letter)
}

// content returns the parts of a turn as one text, one line for each text, with a
// placeholder between its markers for every other part.
func (d *draft) content(parts []Part) string {
	var b strings.Builder
	for i := range parts {
		p := &parts[i]
		if p.Type == abi.Text || p.Type == "" {
			if i > 0 && (parts[i-1].Type == abi.Text || parts[i-1].Type == "") {
				b.WriteByte('\n')
			}
			b.WriteString(d.outside(p.Text))
			continue
		}
		open, closing := "<"+string(p.Type)+">", "</"+string(p.Type)+">"
		if a, _ := d.pair(open, closing); a == tokenizer.None {
			open, closing = "", ""
		}
		fmt.Fprintf(&b, "%s%c%d%c%s", open, d.hole, len(d.holes), d.hole, closing)
		d.holes = append(d.holes, p)
	}
	return b.String()
}

// templated renders the model's template.
func (d *draft) templated(messages []Message, tools []Definition) (string, error) {
	turns := make([]chat.Message, len(messages))
	for i, m := range messages {
		turns[i] = chat.Message{
			Role: string(m.Role), Content: d.content(m.Parts), Reasoning: d.outside(m.Reasoning),
			Name: d.outside(m.Name), ToolCallID: d.outside(m.CallID),
		}
		for _, c := range m.Calls {
			turns[i].ToolCalls = append(turns[i].ToolCalls, chat.ToolCall{
				ID: d.outside(c.ID), Name: d.outside(c.Name), Arguments: d.guard.json(c.Arguments, d.letter),
			})
		}
	}
	opt := chat.Options{AddGenerationPrompt: true, BOS: d.piece(d.tok.Special().BOS), EOS: d.piece(d.tok.Special().EOS)}
	if d.now != nil {
		opt.Now = d.now()
	}
	for _, t := range tools {
		raw, err := json.Marshal(struct {
			Type     string     `json:"type"`
			Function Definition `json:"function"`
		}{"function", t})
		if err != nil {
			return "", fmt.Errorf("describing the tool %s: %w", t.Name, err)
		}
		opt.Tools = append(opt.Tools, d.guard.json(raw, d.letter))
	}
	text, err := d.template.Render(turns, opt)
	if err != nil {
		return "", fmt.Errorf("rendering the conversation: %w", err)
	}
	// A template may write JSON as ASCII.
	text = strings.ReplaceAll(text, escape(d.letter), string(d.letter))
	text = strings.ReplaceAll(text, escape(d.hole), string(d.hole))
	for i := range d.holes {
		if !strings.Contains(text, fmt.Sprintf("%c%d%c", d.hole, i, d.hole)) {
			return "", fmt.Errorf("rendering the conversation: the template drops the %s of a turn", d.holes[i].Type)
		}
	}
	return text, nil
}

func (t *Talk) piece(id int32) string {
	if id == tokenizer.None {
		return ""
	}
	return t.tok.Piece(id)
}

// lines renders a conversation for a model without turns.
func (d *draft) lines(messages []Message) string {
	var b strings.Builder
	for i, m := range messages {
		if i > 0 && m.Role != Assistant && m.Role != Tool {
			b.WriteByte('\n')
		}
		b.WriteString(d.content(m.Parts))
		for _, c := range m.Calls {
			block := string(d.guard.json(d.dialect.Format(c), d.letter))
			if d.open == tokenizer.None {
				b.WriteString(block) // without a template there is no other form
				continue
			}
			b.WriteString(d.dialect.Open + block + d.dialect.Close)
		}
	}
	return b.String()
}

// Between returns the tokens that the model reads after a call that it wrote: the
// tool's answer, possibly enclosed in a turn by the template. The conversation ends
// with the turn of the call and that of the answer. Thinking reports whether the
// template has opened the model's reasoning.
func (t *Talk) Between(messages []Message, tools []Definition) (ids []int32, thinking bool, err error) {
	if len(messages) < 2 || messages[len(messages)-1].Role != Tool {
		return nil, false, errors.New("the conversation does not end with a tool's answer")
	}
	last := len(messages) - 1
	for last > 0 && messages[last].Role == Tool {
		last--
	}
	before, answers := messages[:last], messages[last+1:]
	if t.template != nil && len(before) > 0 {
		with, err := t.Render(messages, tools)
		if err != nil {
			return nil, false, err
		}
		without, err := t.Render(before, tools)
		if err != nil {
			return nil, false, err
		}
		// A template that does not render calls adds no closing marker.
		if ids, n := t.closed(with); n > 0 {
			if _, m := t.closed(without); n > m {
				return ids, with.Thinking, nil
			}
		}
	}
	d, err := t.newDraft(words(answers, nil))
	if err != nil {
		return nil, false, err
	}
	// Encoded after the marker, as within a text: without a leading space.
	var lines []string
	for _, a := range answers {
		lines = append(lines, d.content(a.Parts))
	}
	ids = d.encode(t.dialect.Close + strings.Join(lines, "\n"))
	if len(ids) > 0 && ids[0] == t.close {
		ids = ids[1:]
	}
	return ids, false, nil
}

// closed returns the tokens after the last marker that closes a call, and the number
// of such markers.
func (t *Talk) closed(p Prompt) (ids []int32, n int) {
	for _, piece := range p.Pieces {
		for _, id := range piece.Tokens {
			if ids = append(ids, id); id == t.close {
				ids, n = nil, n+1
			}
		}
	}
	return ids, n
}

// pieces encodes a finished text, the spans between placeholders separately.
func (d *draft) pieces(text string) []Piece {
	var out []Piece
	for i, s := range strings.Split(text, string(d.hole)) {
		if i%2 == 1 {
			if n, err := strconv.Atoi(s); err == nil && n < len(d.holes) {
				out = append(out, Piece{Part: d.holes[n]})
			}
			continue
		}
		ids := d.encode(s)
		if i == 0 {
			ids = d.begin(ids)
		}
		if len(ids) > 0 {
			out = append(out, Piece{Tokens: ids})
		}
	}
	return out
}

// encode removes the marks from a text and encodes it accordingly.
func (d *draft) encode(marked string) []int32 {
	var literal []int
	var b strings.Builder
	for i, s := range strings.Split(marked, string(d.letter)) {
		if i > 0 && b.Len() > 0 {
			literal = append(literal, b.Len()-1)
		}
		b.WriteString(s)
	}
	return d.tok.Encode(b.String(), tokenizer.Options{Special: true, Literal: literal})
}

// begin prepends BOS if the model needs it and the template has not written it.
func (t *Talk) begin(ids []int32) []int32 {
	bos := t.tok.Special().BOS
	if !t.tok.Rules().AddBOS || bos == tokenizer.None || len(ids) > 0 && ids[0] == bos {
		return ids
	}
	return append([]int32{bos}, ids...)
}
