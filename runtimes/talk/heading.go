package talk

import (
	"strings"

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
	asked, a := t.try(chat.Options{AddGenerationPrompt: true}, question)
	same, b := t.try(chat.Options{}, question)
	full, c := t.try(chat.Options{}, question, chat.Message{Role: string(Assistant), Content: probeWord})
	rest, d := strings.CutPrefix(full, asked)
	heading, _, e := strings.Cut(rest, probeWord)
	return !(a && b && c && d && e) || asked != same || strings.TrimSpace(heading) == ""
}
