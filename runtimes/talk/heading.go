package talk

import (
	"strings"
	"time"

	"mm-abi.org/mm/core/chat"
)

// Heads reports whether the template writes the text that begins a turn of the model, if it
// has one. A model answers with that text otherwise.
func (t *Talk) Heads() bool { return t.heads() }

// probeHeads renders a question with and without its answer, and compares the texts before
// the answer.
func (t *Talk) probeHeads() bool {
	if t.template == nil {
		return true
	}
	question := chat.Message{Role: string(User), Content: "u"}
	text := func(prompt bool, turns ...chat.Message) (string, bool) {
		opt := chat.Options{AddGenerationPrompt: prompt, BOS: t.piece(t.tok.Special().BOS), EOS: t.piece(t.tok.Special().EOS), Now: time.Unix(0, 1).UTC()}
		out, err := t.template.Render(turns, opt)
		return out, err == nil
	}
	asked, a := text(true, question)
	same, b := text(false, question)
	full, c := text(false, question, chat.Message{Role: string(Assistant), Content: probeWord})
	rest, d := strings.CutPrefix(full, asked)
	heading, _, e := strings.Cut(rest, probeWord)
	return !(a && b && c && d && e) || asked != same || strings.TrimSpace(heading) == ""
}
