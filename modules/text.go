package modules

import (
	"fmt"
	"strings"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
)

// Ports of an encoder of text.
const (
	TextIDs       = "input_ids"
	TextMask      = "attention_mask"
	TextSegments  = "token_type_ids"
	TextEmbedding = "embedding" // a vector of each text
	TextScores    = "scores"    // a score of each label, of a text or of two
)

// Parameters of encoders whose vectors of texts and of pictures share a space.
const (
	Space      = "space"       // the same for the encoders of a model
	LogitScale = "logit_scale" // factor of the product of two vectors in the model's scores
	LogitBias  = "logit_bias"  // summand of the same
)

// Text describes how an encoder reads text (MM-ABI 1.2).
type Text struct {
	Tokenizer string            `json:"tokenizer"`         // file: the vocabulary as GGUF
	MaxTokens int               `json:"max_tokens"`        // of a text, with the special tokens; longer ones are cut
	Prompts   map[string]string `json:"prompts,omitempty"` // texts to put before an input, by name
	Prompt    string            `json:"prompt,omitempty"`  // the prompt without another choice
	Labels    []string          `json:"labels,omitempty"`  // of the scores
}

// Ranks reports whether the outputs of an encoder of text are scores.
func (m *Manifest) Ranks() bool { return m.Text != nil && hasPort(m.Outputs, TextScores) }

// SharedSpace returns the space of the vectors of an encoder, which those of another input share, or "".
func (m *Manifest) SharedSpace() string {
	s, _ := m.Params[Space].(string)
	if !hasPort(m.Outputs, TextEmbedding) {
		return ""
	}
	return s
}

// Logits returns how the products of vectors of a shared space become the scores of the
// model, false if the manifest has no scale.
func (m *Manifest) Logits() (scale, bias float64, ok bool) {
	scale, ok = m.Params[LogitScale].(float64)
	bias, _ = m.Params[LogitBias].(float64)
	return scale, bias, ok
}

// checkText checks the block of an encoder of text against the ports.
func (m *Manifest) checkText(list *diag.List) {
	t := m.Text
	if t == nil {
		return
	}
	wrong := func(at, detail, hint string) { list.Add(diag.BadText, m.Pos(at), m.ID()+": "+detail, hint) }
	if m.Modality != abi.Text {
		wrong("/modality", fmt.Sprintf("text: of an encoder of modality %s", m.Modality), "use modality: text")
	}
	if !hasPort(m.Inputs, TextIDs) || !hasPort(m.Inputs, TextMask) {
		wrong("/inputs", "text: without the inputs "+TextIDs+" and "+TextMask, "name the inputs so")
	}
	for _, p := range m.Inputs {
		if p.Name != TextIDs && p.Name != TextMask && p.Name != TextSegments || len(p.Shape) != 1 || p.DType != abi.Int64 {
			wrong("/inputs", fmt.Sprintf("text: with the input %s", p), "want int64 [T], named "+strings.Join([]string{TextIDs, TextMask, TextSegments}, ", "))
		}
	}
	if len(m.Outputs) != 1 || m.Outputs[0].Name != TextEmbedding && m.Outputs[0].Name != TextScores || len(m.Outputs[0].Shape) != 1 || m.Outputs[0].Shape[0].Size == 0 || m.Outputs[0].DType != abi.FP32 {
		wrong("/outputs", "text: without one output "+TextEmbedding+" or "+TextScores+", fp32 [SIZE]", "pool the states of the tokens in the model, as mm module import hf does")
	} else if n := int(m.Outputs[0].Shape[0].Size); len(t.Labels) > 0 && (!m.Ranks() || n != len(t.Labels)) {
		wrong("/text/labels", fmt.Sprintf("%d labels for the output %s", len(t.Labels), m.Outputs[0]), "list a label for each score")
	}
	if _, ok := t.Prompts[t.Prompt]; !ok && t.Prompt != "" {
		wrong("/text/prompt", fmt.Sprintf("unknown prompt %q", t.Prompt), "name one of prompts")
	}
}
