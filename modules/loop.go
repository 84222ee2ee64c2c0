package modules

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/internal/diag"
)

// Loop describes an encoder-decoder that writes text: the exported file is the
// encoder, and the files of the decoder continue the ids, one after the other. Their
// inputs and outputs have the names of Optimum's exports.
type Loop struct {
	From      string `json:"from"`              // "audio" or "text"
	Tokenizer string `json:"tokenizer"`         // GGUF file with the vocabulary
	Decoder   string `json:"decoder,omitempty"` // ONNX file of the first ids; if empty, Past
	Past      string `json:"past,omitempty"`    // ONNX file of further ids, or of all

	Start         []int64 `json:"start,omitempty"`          // ids before the text; a language and a task follow the first
	Stop          []int64 `json:"stop,omitempty"`           // ids that end the text
	Suppress      []int64 `json:"suppress,omitempty"`       // ids that are never chosen
	BeginSuppress []int64 `json:"begin_suppress,omitempty"` // ids that are not chosen first
	MaxIDs        int     `json:"max_ids,omitempty"`        // positions of the decoder
	PerSecond     float64 `json:"per_second,omitempty"`     // ids for a second of sound
	Window        float64 `json:"window_s,omitempty"`       // seconds of sound in one run

	// Blank is the id of no text of a model without a decoder (CTC): its logits score the
	// ids of each step.
	Blank *int64 `json:"blank,omitempty"`

	Languages    map[string]int64 `json:"languages,omitempty"`
	Tasks        map[string]int64 `json:"tasks,omitempty"`
	NoTimestamps *int64           `json:"no_timestamps,omitempty"` // the ids after it are time stamps
	MaxInitial   *int             `json:"max_initial,omitempty"`   // greatest first time stamp, in steps
	StepMS       int              `json:"step_ms,omitempty"`       // between two time stamps; if 0, 20
}

// Inputs of Loop.From.
const (
	LoopAudio = "audio"
	LoopText  = "text"
)

// LoopFiles returns the files that the loop block names.
func (t *Tensors) LoopFiles() []string {
	if t.Loop == nil {
		return nil
	}
	out := []string{t.Loop.Tokenizer}
	if t.Loop.Past != "" {
		out = append(out, t.Loop.Past)
	}
	if t.Loop.Decoder != "" {
		out = append(out, t.Loop.Decoder)
	}
	return out
}

// BlockFiles returns the files that the speech, the loop, the text and the confidence block
// name.
func (t *Tensors) BlockFiles() []string {
	out := append(t.SpeechFiles(), t.LoopFiles()...)
	if t.Text != nil {
		out = append(out, t.Text.Tokenizer)
	}
	if t.Confidence != nil {
		out = append(out, t.Confidence.Domain)
	}
	return out
}

// checkLoop compares the loop block with the other keys.
func (m *Manifest) checkLoop(list *diag.List) {
	l := m.Loop
	if l == nil {
		return
	}
	wrong := func(at, detail, hint string) {
		list.Add(diag.BadBlock, m.Pos("/loop"+at), m.ID()+": "+detail, hint)
	}
	if m.Speech != nil {
		wrong("", "loop and speech exclude each other", "remove one of them")
	}
	if l.Blank != nil {
		m.checkCTC(wrong)
		return
	}
	if l.Past == "" {
		wrong("", "missing past", "name the ONNX file of the decoder")
	}
	if len(l.Start) == 0 || len(l.Start) >= l.MaxIDs {
		wrong("/start", fmt.Sprintf("got %d ids for %d positions", len(l.Start), l.MaxIDs), "start with one id at least")
	}
	if len(l.Stop) == 0 {
		wrong("/stop", "missing id that ends the text", "use eos_token_id of generation_config.json")
	}
	for _, id := range l.Stop {
		if slices.Contains(l.Suppress, id) {
			wrong("/suppress", fmt.Sprintf("id %d of stop is never chosen", id), "remove it from suppress")
		}
	}
	sounds := 0
	for _, p := range m.Inputs {
		if spec, ok := m.Preprocess[p.Name]; ok && spec.IsSound() {
			sounds++
		}
	}
	switch {
	case l.From == LoopAudio && sounds != 1:
		wrong("/from", fmt.Sprintf("audio requires one input with preprocessing of sounds, got %d", sounds), "add preprocess for the input")
	case l.From == LoopText && sounds != 0:
		wrong("/from", "text excludes preprocessing of sounds", "use from: audio")
	case l.From == LoopText && (l.NoTimestamps != nil || l.PerSecond != 0 || l.Window != 0):
		wrong("/from", "text excludes no_timestamps, per_second and window_s", "remove them")
	}
	if l.MaxInitial != nil && l.NoTimestamps == nil {
		wrong("/max_initial", "max_initial requires no_timestamps", "")
	}
}

// checkCTC compares the loop block of a model without a decoder with the other keys.
func (m *Manifest) checkCTC(wrong func(at, detail, hint string)) {
	l := m.Loop
	if l.From != LoopAudio || l.Past != "" || l.Decoder != "" || len(l.Start)+len(l.Stop)+len(l.Suppress)+len(l.BeginSuppress)+len(l.Languages)+len(l.Tasks) > 0 || l.NoTimestamps != nil || l.PerSecond != 0 || l.MaxIDs != 0 {
		wrong("/blank", "blank excludes a decoder and its keys", "keep from: audio, tokenizer, blank and window_s")
	}
	if len(m.Inputs) != 1 {
		wrong("/from", fmt.Sprintf("blank requires one input, got %d", len(m.Inputs)), "")
	}
}
