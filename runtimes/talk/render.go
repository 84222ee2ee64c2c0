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
	holes        []Piece

	cut  rune // ends the calls of a turn, if mark is set
	mark bool
}

func (t *Talk) newDraft(outside []string) (*draft, error) {
	runes, err := unused(append(append(outside, t.source), t.named()...), 3)
	if err != nil {
		return nil, err
	}
	return &draft{Talk: t, letter: runes[0], hole: runes[1], cut: runes[2]}, nil
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
func (d *draft) content(parts []Part) (string, error) {
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
		text, err := d.place(p)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// place returns the placeholders of a part and the texts around them.
func (d *draft) place(p *Part) (string, error) {
	var texts []string
	if d.layout != nil {
		var err error
		if texts, err = d.layout(p); err != nil {
			return "", err
		}
	}
	if texts == nil {
		open, closing := "<"+string(p.Type)+">", "</"+string(p.Type)+">"
		if a, _ := d.pair(open, closing); a == tokenizer.None {
			open, closing = "", ""
		}
		texts = []string{open, closing}
	}
	var b strings.Builder
	for i, text := range texts {
		if i > 0 {
			fmt.Fprintf(&b, "%c%d%c", d.hole, len(d.holes), d.hole)
			d.holes = append(d.holes, Piece{Part: p, Run: i - 1, Runs: len(texts) - 1})
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// items returns the parts of a turn for a template that writes a marker for each
// that is not text, and what replaces the markers.
func (d *draft) items(parts []Part) (out []chat.Part, places []string, err error) {
	for i := range parts {
		p := &parts[i]
		if p.Type == abi.Text || p.Type == "" {
			out = append(out, chat.Part{Type: "text", Text: d.outside(p.Text)})
			continue
		}
		text, err := d.place(p)
		if err != nil {
			return nil, nil, err
		}
		out, places = append(out, chat.Part{Type: string(p.Type)}), append(places, text)
	}
	return out, places, nil
}

// marked renders the turns with their parts as items and replaces the markers, or
// returns false if the template does not write one for each item.
func (d *draft) marked(turns []chat.Message, messages []Message, opt chat.Options) (string, bool, error) {
	items := make([]chat.Message, len(turns))
	var places, markers []string
	for i := range turns {
		parts, more, err := d.items(messages[i].Parts)
		if err != nil {
			return "", false, err
		}
		items[i] = turns[i]
		items[i].Parts = parts
		if text := d.written(messages[i]); text != "" {
			items[i].Parts = append(items[i].Parts, chat.Part{Type: "text", Text: text})
		}
		places = append(places, more...)
		for _, p := range messages[i].Parts {
			if m := d.marker[p.Type]; p.Type != abi.Text && p.Type != "" {
				markers = append(markers, m)
			}
		}
	}
	text, err := d.template.Render(items, opt)
	if err != nil {
		return "", false, nil // it may take texts only
	}
	var b strings.Builder
	for i, m := range markers {
		before, after, found := strings.Cut(text, m)
		if m == "" || !found {
			return "", false, nil
		}
		b.WriteString(before)
		b.WriteString(places[i])
		text = after
	}
	for _, m := range d.marker {
		if m != "" && strings.Contains(text, m) {
			return "", false, nil
		}
	}
	b.WriteString(text)
	return b.String(), true, nil
}

// templated renders the model's template.
func (d *draft) templated(messages []Message, tools []Definition) (string, error) {
	messages, goesOn := d.unended(messages)
	turns := make([]chat.Message, len(messages))
	for i, m := range messages {
		turns[i] = chat.Message{
			Role: string(m.Role), Reasoning: d.outside(m.Reasoning), Name: d.outside(m.Name), ToolCallID: d.outside(m.CallID),
		}
		if d.dialect.Form == chat.Channel {
			turns[i].Thinking = turns[i].Reasoning
		}
		for _, c := range m.Calls {
			turns[i].ToolCalls = append(turns[i].ToolCalls, chat.ToolCall{
				ID: d.outside(c.ID), Name: d.outside(c.Name), Arguments: d.guard.json(c.Arguments, d.letter),
			})
		}
	}
	opt := chat.Options{AddGenerationPrompt: !goesOn, BOS: d.piece(d.tok.Special().BOS), EOS: d.piece(d.tok.Special().EOS), Vars: d.variables()}
	if d.now != nil {
		opt.Now = d.now()
	}
	for _, t := range tools {
		if len(t.Parameters) > 0 && !json.Valid(t.Parameters) {
			return "", fmt.Errorf("describing the tool %s: the parameters are not JSON", t.Name)
		}
		opt.Tools = append(opt.Tools, d.guard.json(function(t), d.letter))
	}
	if d.dialect.Guided && d.takes.listed && len(tools) > 0 {
		turns[0].Tools = "[" + strings.Join(texts(opt.Tools), ", ") + "]"
	}
	text, err := d.rendered(turns, messages, opt)
	if err != nil {
		return "", fmt.Errorf("rendering the conversation: %w", err)
	}
	if goesOn {
		at := strings.LastIndex(text, string(d.cut))
		if at < 0 {
			return "", errors.New("rendering the conversation: the template drops the last turn")
		}
		text = text[:at]
	}
	// A template may write JSON as ASCII.
	text = strings.ReplaceAll(text, escape(d.letter), string(d.letter))
	text = strings.ReplaceAll(text, escape(d.hole), string(d.hole))
	for i := range d.holes {
		if !strings.Contains(text, fmt.Sprintf("%c%d%c", d.hole, i, d.hole)) {
			return "", fmt.Errorf("rendering the conversation: the template drops the %s of a turn", d.holes[i].Part.Type)
		}
	}
	return text, nil
}

// texts converts JSON to strings.
func texts(list []json.RawMessage) []string {
	var out []string
	for _, raw := range list {
		out = append(out, string(raw))
	}
	return out
}

// rendered renders the turns: with items if the template writes markers, otherwise
// with texts that contain the placeholders.
func (d *draft) rendered(turns []chat.Message, messages []Message, opt chat.Options) (string, error) {
	if len(d.marker) > 0 {
		if text, ok, err := d.marked(turns, messages, opt); ok || err != nil {
			return text, err
		}
		d.holes = nil
	}
	for i, m := range messages {
		var err error
		if turns[i].Content, err = d.content(m.Parts); err != nil {
			return "", err
		}
		turns[i].Content += d.written(m)
	}
	return d.template.Render(turns, opt)
}

func (t *Talk) piece(id int32) string {
	if id == tokenizer.None {
		return ""
	}
	return t.tok.Piece(id)
}

// lines renders a conversation for a model without turns.
func (d *draft) lines(messages []Message) (string, error) {
	var b strings.Builder
	for i, m := range messages {
		if i > 0 && m.Role != Assistant && m.Role != Tool {
			b.WriteByte('\n')
		}
		text, err := d.content(m.Parts)
		if err != nil {
			return "", err
		}
		b.WriteString(text + d.written(m))
		if d.dialect.Guided {
			continue
		}
		for _, c := range m.Calls {
			block := string(d.guard.json(d.dialect.Format(c), d.letter))
			if d.open == tokenizer.None {
				b.WriteString(block) // without a template there is no other form
				continue
			}
			b.WriteString(d.dialect.Open + block + d.dialect.Close)
		}
	}
	return b.String(), nil
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
	if t.dialect.Guided && len(messages[last].Calls) > 0 {
		return t.after(messages, last, tools)
	}
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
		text, err := d.content(a.Parts)
		if err != nil {
			return nil, false, err
		}
		lines = append(lines, text)
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
				out = append(out, d.holes[n])
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
	bos, rules := t.tok.Special().BOS, t.tok.Rules()
	if t.template != nil && rules.TemplateBOS || !rules.AddBOS || bos == tokenizer.None || len(ids) > 0 && ids[0] == bos {
		return ids
	}
	return append([]int32{bos}, ids...)
}
