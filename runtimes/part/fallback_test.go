package part

import (
	"context"
	"errors"
	"strings"
	"testing"

	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/runtimetest"
)

// emulator is an engine that emulates hardware.
type emulator struct{ *runtimetest.Engine }

func (emulator) Simulates() bool { return true }

// A part that the requested engine refuses runs on another only if that is allowed, and the
// result names both.
func TestFallback(t *testing.T) {
	args := []Argument{{Name: "image-enc.picture", Input: modality.Input{Tensor: &runtimes.Tensor{Type: runtimes.Uint8, Shape: []int64{1, 1, 3}, Data: []byte{1, 2, 3}}}}}
	for name, c := range map[string]struct {
		npu      *runtimetest.Engine
		allowed  bool
		asked    string
		taken    string // "": nothing
		fault    string
		fellWith string
	}{
		"it takes it":                  {npu: &runtimetest.Engine{}, allowed: true, asked: "npu", taken: "npu (emulated)"},
		"it cannot":                    {npu: &runtimetest.Engine{Cannot: []string{"image-enc"}}, asked: "npu", fault: "npu does not open it"},
		"it cannot, and another may":   {npu: &runtimetest.Engine{Cannot: []string{"image-enc"}}, allowed: true, asked: "npu", taken: "cpu", fellWith: "npu does not open it"},
		"it is gone":                   {npu: &runtimetest.Engine{Gone: true}, asked: "npu", fault: "it is gone"},
		"it is gone, and another may":  {npu: &runtimetest.Engine{Gone: true}, allowed: true, asked: "npu", taken: "cpu", fellWith: "it is gone"},
		"it breaks":                    {npu: &runtimetest.Engine{Broken: errors.New("left for the processor: ATAN2")}, asked: "npu", fault: "ATAN2"},
		"it breaks, and another may":   {npu: &runtimetest.Engine{Broken: errors.New("left for the processor: ATAN2")}, allowed: true, asked: "npu", taken: "cpu", fellWith: "ATAN2"},
		"a version is not there":       {npu: &runtimetest.Engine{}, allowed: true, asked: "npu@3", taken: "cpu", fellWith: "backend npu@3 is not available"},
		"no such engine":               {npu: &runtimetest.Engine{}, allowed: true, asked: "nqu", fault: "this build of mm does not have it"},
		"no fallback but an emulator":  {npu: &runtimetest.Engine{}, allowed: true, asked: "cannot", fault: "cannot does not open it"},
		"over time is no reason to go": {npu: &runtimetest.Engine{Broken: runtimes.ErrTime}, allowed: true, asked: "npu", fault: runtimes.ErrTime.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			c.npu.Called = "npu"
			cpu := &runtimetest.Engine{Called: "cpu"}
			if c.asked == "cannot" { // and only the emulator could
				cpu.Called, cpu.Cannot = "cannot", []string{"image-enc"}
			}
			opt := Options{Engines: []runtimes.Engine{cpu, emulator{c.npu}}, Engine: c.asked}
			var fell []Fallback
			if c.allowed {
				opt.Fallback = func(f Fallback) { fell = append(fell, f) }
			}
			s, err := Open(t.Context(), runtimetest.Build(t, false, "image-enc"), opt)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			out, err := s.Compute(t.Context(), args)
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) || len(fell) > 0 {
					t.Fatalf("%v, fell back %v, want %q", err, fell, c.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := out[0]
			if got.Backend != c.taken || got.Simulated != (c.fellWith == "") {
				t.Errorf("ran on %q, simulated %v", got.Backend, got.Simulated)
			}
			if c.fellWith == "" {
				if len(fell) > 0 || got.Facts[FactInsteadOf] != "" {
					t.Errorf("fell back %v, facts %v", fell, got.Facts)
				}
				return
			}
			if len(fell) != 1 || fell[0].Requested != c.asked || fell[0].Used != "cpu" || !strings.Contains(fell[0].Why.Error(), c.fellWith) {
				t.Errorf("fell back %+v", fell)
			}
			if got.Facts[FactInsteadOf] != c.asked || strings.Contains(got.Step("", 0, "").Backend, "npu") {
				t.Errorf("facts %v, step %+v", got.Facts, got.Step("", 0, ""))
			}
		})
	}
}

// A canceled caller gets no fallback.
func TestFallbackOfNobody(t *testing.T) {
	s := set(t, runtimetest.Build(t, false, "image-enc"), Options{Engine: "first", Fallback: func(Fallback) { t.Error("fell back") }})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if e := s.instead(ctx, s.build.Assembly.Modalities[0].Encoder, errors.New("any")); e != nil {
		t.Errorf("%s takes its place", e.Name())
	}
}
