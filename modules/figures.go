package modules

import (
	"fmt"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
)

// The values of params.temporal of a projector: how the vectors of the frames of a
// video are combined.
const (
	TemporalMean   = "mean"   // elementwise mean
	TemporalConcat = "concat" // concatenation
	TemporalHalves = "halves" // the mean of the first half, then that of the second
)

// maxWindow is the largest caps.window_ms of an encoder, in milliseconds.
const maxWindow = 3_600_000

// Temporal returns how a projector combines the vectors of frames.
func (m *Manifest) Temporal() string {
	if s, _ := m.Params["temporal"].(string); s != "" {
		return s
	}
	return TemporalMean
}

// WindowMS returns the length of a window of sound of an encoder; 0 is unlimited.
func (m *Manifest) WindowMS() int {
	n, _ := m.Caps.Int("window_ms")
	return int(n)
}

// Levels returns the values of a decoder's output for black and white:
// params.range, or 0 and 1.
func (m *Manifest) Levels() (low, high float64) {
	if list, ok := m.Params["range"].([]any); ok && len(list) == 2 {
		a, first := list[0].(float64)
		b, second := list[1].(float64)
		if first && second && a < b {
			return a, b
		}
	}
	return 0, 1
}

// checkFigures checks the entries of params and caps that have a defined meaning.
func (m *Manifest) checkFigures(list *diag.List) {
	wrong := func(at, detail, hint string) { list.Add(diag.BadFigure, m.Pos(at), m.ID()+": "+detail, hint) }
	if v, ok := m.Caps["window_ms"]; ok && m.Type == abi.Encoder {
		if n, whole := m.Caps.Int("window_ms"); !whole || n < 1 || n > maxWindow {
			wrong("/caps/window_ms", fmt.Sprintf("window_ms is %v", v), fmt.Sprintf("write a whole number of milliseconds from 1 to %d", maxWindow))
		}
	}
	if v, ok := m.Params["temporal"]; ok && m.Type == abi.Projector && v != TemporalMean && v != TemporalConcat && v != TemporalHalves {
		wrong("/params/temporal", fmt.Sprintf("temporal is %v", v), "write "+TemporalMean+", "+TemporalHalves+" or "+TemporalConcat)
	}
	if m.Type != abi.Decoder {
		return
	}
	if v, ok := m.Params["T_dec"]; ok {
		if n, whole := m.Params.Int("T_dec"); !whole || n < 1 {
			wrong("/params/T_dec", fmt.Sprintf("T_dec is %v", v), "write the number of core states that the decoder takes")
		}
	}
	if v, ok := m.Params["range"]; ok && m.Modality == abi.Image {
		if low, high := m.Levels(); low == 0 && high == 1 && fmt.Sprint(v) != "[0 1]" {
			wrong("/params/range", fmt.Sprintf("range is %v", v), "write [LOW, HIGH], the values of black and white")
		}
	}
}
