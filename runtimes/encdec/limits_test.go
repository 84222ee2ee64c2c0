package encdec

import (
	"errors"
	"math"
	"strings"
	"testing"

	"mm-abi.org/mm/core/preprocess"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
)

// code returns the first code of an error, or "".
func code(err error) diag.Code {
	if f := (*diag.Faults)(nil); errors.As(err, &f) {
		return f.List[0].Code
	}
	return ""
}

func TestLimits(t *testing.T) {
	sounds, texts := &Model{spec: &modules.Loop{From: modules.LoopAudio}}, &Model{spec: &modules.Loop{From: modules.LoopText}}
	for name, c := range map[string]struct {
		m    *Model
		req  Request
		want diag.Code
	}{
		"two hours":     {sounds, Request{Wave: &preprocess.Wave{Rate: 1, Samples: make([]float32, maxSeconds)}}, ""},
		"longer":        {sounds, Request{Wave: &preprocess.Wave{Rate: 1, Samples: make([]float32, maxSeconds+1)}}, diag.LoopLong},
		"a long text":   {texts, Request{Text: strings.Repeat("a", maxText)}, ""},
		"a longer text": {texts, Request{Text: strings.Repeat("a", maxText+1)}, diag.LoopLong},
		"nothing":       {sounds, Request{}, diag.NoLoop},
		"a text":        {sounds, Request{Text: "a"}, diag.NoLoop},
		"a language":    {texts, Request{Text: "a", Language: "de"}, diag.LoopLanguage},
		"a task":        {texts, Request{Text: "a", Task: "translate"}, diag.LoopTask},
	} {
		if got := code(c.m.check(&c.req)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestSourceLimit(t *testing.T) {
	if err := checkSource(maxSource); err != nil {
		t.Error(err)
	}
	if err := checkSource(maxSource + 1); code(err) != diag.LoopLong {
		t.Error(err)
	}
}

// The files of a decoder have the inputs of a loop.
func TestFiles(t *testing.T) {
	const key = "past_key_values.0.decoder.key"
	for name, c := range map[string]struct {
		width int64
		out   string
		want  int
	}{"wide": {maxWidth, logits, 0}, "wider": {maxWidth + 1, logits, 1}, "without scores": {1, "other", 1}} {
		f := &file{inputs: map[string]port{inputIDs: {}, key: {elem: runtimes.Float32, dims: []int64{1, 1, 0, c.width}}}, outputs: map[string]bool{c.out: true, "present.0.decoder.key": true}}
		var list diag.List
		if f.check(&list); len(list) != c.want || c.want > 0 && list[0].Code != diag.LoopFile {
			t.Errorf("%s: %v", name, list)
		}
	}
}

// Scores are numbers, one for each id of the loop at least.
func TestScores(t *testing.T) {
	m := &Model{least: 2}
	one := func(bits ...uint32) runtimes.Tensor {
		t := runtimes.Tensor{Type: runtimes.Float32, Shape: []int64{1, 1, int64(len(bits))}}
		for _, b := range bits {
			t.Data = append(t.Data, byte(b), byte(b>>8), byte(b>>16), byte(b>>24))
		}
		return t
	}
	for name, c := range map[string]struct {
		t    runtimes.Tensor
		want diag.Code
	}{
		"numbers": {one(0, math.Float32bits(1)), ""}, "few": {one(0), diag.LoopNumber},
		"not a number": {one(0, 0x7fc00000), diag.LoopNumber}, "missing": {runtimes.Tensor{}, diag.LoopNumber},
	} {
		if _, err := m.scores(c.t); code(err) != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A cache before the first ids is empty, or has the states of a merged file.
func TestEmpty(t *testing.T) {
	p := port{elem: runtimes.Float32, dims: []int64{1, 2, 0, 4}, names: []string{"", "", "states", ""}}
	for name, c := range map[string]struct {
		states int64
		axis   string
		want   int64
		ok     bool
	}{"empty": {9, "past", 0, true}, "merged": {9, "states", 9, true}, "largest": {maxEmpty / 32, "states", maxEmpty / 32, true}, "larger": {maxEmpty/32 + 1, "states", maxEmpty/32 + 1, false}} {
		r := &run{states: map[string]runtimes.Tensor{hidden: {Shape: []int64{1, c.states, 8}}}}
		got, ok := r.empty(&file{inputs: map[string]port{hidden: {names: []string{"", c.axis, ""}}}}, p)
		if ok != c.ok || got.Shape[2] != c.want || ok && int64(len(got.Data)) != 32*c.want {
			t.Errorf("%s: %v, %d bytes, %t", name, got.Shape, len(got.Data), ok)
		}
	}
}
