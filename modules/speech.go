package modules

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
)

// Speech describes a decoder of texts: how a text becomes the ids of its symbols,
// and which inputs take the voice and the speed.
type Speech struct {
	From    string  `json:"from,omitempty"` // alphabet of the symbols: "ipa", "kokoro" or "text"; if empty, ipa
	Symbols string  `json:"symbols"`        // JSON file that maps symbols to ids
	IDs     string  `json:"ids"`            // input of the ids
	Length  string  `json:"length,omitempty"`
	Mask    string  `json:"mask,omitempty"`    // input of as many ones as ids
	Begin   []int64 `json:"begin,omitempty"`   // ids before the symbols
	After   []int64 `json:"after,omitempty"`   // ids after each symbol
	End     []int64 `json:"end,omitempty"`     // ids after all symbols
	MaxIDs  int     `json:"max_ids,omitempty"` // ids of symbols in one run; if 0, 4096

	Voices   *Voices   `json:"voices,omitempty"`
	Speakers *Speakers `json:"speakers,omitempty"`
	Speed    string    `json:"speed,omitempty"` // input of the speed
	Scales   *Scales   `json:"scales,omitempty"`

	Language  string            `json:"language,omitempty"`  // voice of espeak-ng; if empty, en-us
	Languages map[string]string `json:"languages,omitempty"` // by the first letter of a voice
	Output    string            `json:"output,omitempty"`    // the samples; if empty, the only output
	PauseMS   int               `json:"pause_ms,omitempty"`  // between two sentences
}

// Voices describes an input that takes a vector of the voice. A file is an array
// [N, D] or [N, 1, D], named as the voice, or an archive (.npz) of such arrays; row
// n-1 is for n symbols, the last row for more.
type Voices struct {
	Input string   `json:"input"`
	Files []string `json:"files"`
}

// Speakers describes an input that takes the number of the voice.
type Speakers struct {
	Input string           `json:"input"`
	IDs   map[string]int64 `json:"ids,omitempty"` // by name; if empty, there is one voice, number 0
}

// Scales describes an input of several numbers, of which one is a length: the speed
// divides it.
type Scales struct {
	Input  string    `json:"input"`
	Values []float64 `json:"values"`
	Length int       `json:"length"` // index of the length
}

// Alphabets of Speech.From.
const (
	SpeechIPA    = "ipa"    // as espeak-ng writes it
	SpeechKokoro = "kokoro" // Kokoro's, in which one letter is a diphthong
	SpeechText   = "text"   // letters of the text
)

// SpeechFiles returns the files that the speech block names.
func (t *Tensors) SpeechFiles() []string {
	if t.Speech == nil {
		return nil
	}
	out := []string{t.Speech.Symbols}
	if v := t.Speech.Voices; v != nil {
		out = append(out, v.Files...)
	}
	return out
}

// checkSpeech compares the speech block with the ports.
func (m *Manifest) checkSpeech(list *diag.List) {
	s := m.Speech
	if s == nil {
		return
	}
	wrong := func(at, detail, hint string) {
		list.Add(diag.BadBlock, m.Pos("/speech"+at), m.ID()+": "+detail, hint)
	}
	if m.Modality != abi.Audio {
		wrong("", fmt.Sprintf("speech requires the modality audio, got %s", m.Modality), "")
	}
	uses := []struct{ at, input string }{{"/ids", s.IDs}, {"/length", s.Length}, {"/mask", s.Mask}, {"/speed", s.Speed}}
	if s.Voices != nil {
		uses = append(uses, struct{ at, input string }{"/voices/input", s.Voices.Input})
	}
	if s.Speakers != nil {
		uses = append(uses, struct{ at, input string }{"/speakers/input", s.Speakers.Input})
	}
	if s.Scales != nil {
		uses = append(uses, struct{ at, input string }{"/scales/input", s.Scales.Input})
		if n := len(s.Scales.Values); s.Scales.Length >= n {
			wrong("/scales/length", fmt.Sprintf("length is value %d of %d", s.Scales.Length, n), "values are counted from 0")
		}
	}
	seen := map[string]bool{}
	for _, u := range uses {
		switch {
		case u.input == "":
			continue
		case !hasPort(m.FreeInputs(), u.input):
			wrong(u.at, fmt.Sprintf("unknown input %q", u.input), "use the name of an input")
		case seen[u.input]:
			wrong(u.at, fmt.Sprintf("%q has two uses", u.input), "use each input once")
		}
		seen[u.input] = true
	}
	for _, p := range m.FreeInputs() {
		if !seen[p.Name] {
			wrong("", fmt.Sprintf("nothing fills the input %q", p.Name), "name it in speech, or add it to constants")
		}
	}
	if s.Output == "" && len(m.Outputs) != 1 || s.Output != "" && !hasPort(m.Outputs, s.Output) {
		wrong("/output", fmt.Sprintf("output %q is not one of %d outputs", s.Output, len(m.Outputs)), "name the output with the samples")
	}
	if s.Voices != nil && s.Speakers != nil {
		wrong("/speakers", "voices and speakers exclude each other", "remove one of them")
	}
	if !slices.Contains([]string{"", SpeechIPA, SpeechKokoro, SpeechText}, s.From) {
		wrong("/from", fmt.Sprintf("unknown alphabet %q", s.From), "use ipa, kokoro or text")
	}
}
