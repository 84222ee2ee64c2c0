package runtimes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runtimetest"
)

func runner(text string) *runtimes.Runner {
	return &runtimes.Runner{
		Assembly: &builds.Assembly{
			Name: "b", Target: "laptop",
			Core: builds.Part{Name: "core-llm", Version: "1.0.0", Files: builds.Formats{"gguf": {"core-llm/core-llm.gguf"}}},
			Modalities: []builds.ModalityPart{
				{Modality: abi.Image, Encoder: builds.Part{Name: "enc", Version: "1.0.0", Files: builds.Formats{"onnx": {"e"}}}, Projector: builds.Part{Name: "proj", Version: "1.0.0", Files: builds.Formats{"onnx": {"p"}}}},
				{Modality: abi.Audio, Encoder: builds.Part{Name: "aenc", Version: "1.0.0"}},
			},
			Golden: []modules.Golden{{Prompt: "a", Expect: "Once upon"}, {Prompt: "b", Expect: "Twice"}},
		},
		Path:    func(file string) (string, error) { return "/store/" + file, nil },
		Backend: &runtimetest.Fake{Text: text},
	}
}

func text(s string) runtimes.Request {
	return runtimes.Request{Inputs: []runtimes.Input{{Type: abi.Text, Text: s}}}
}

func ExampleRunner() {
	r := runner("Once upon a time")
	defer r.Close()
	answer, err := r.Answer(context.Background(), text("Tell me a story"), func(piece string) error {
		fmt.Printf("%q ", piece)
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Stop, answer.Timings.Prompt, answer.Timings.Generated)
	// Output: "Once " "upon " "a " "time" end 4 4
}

// A second answer begins from an empty sequence.
func TestAnswerTwice(t *testing.T) {
	r := runner("one two")
	for range 2 {
		a, err := r.Answer(context.Background(), text("x"), func(string) error { return nil })
		if err != nil || a.Text != "one two" || a.Timings.Prompt != 1 {
			t.Fatalf("%+v, %v", a, err)
		}
	}
}

// What cannot be answered says what is missing, before anything is loaded.
func TestUnavailable(t *testing.T) {
	for _, tc := range []struct {
		name string
		req  runtimes.Request
		want string
	}{
		{"image", runtimes.Request{Inputs: []runtimes.Input{{Type: abi.Image, Path: "dir/plot.png"}}}, "image input plot.png is not available: enc@1.0.0 needs the onnx backend"},
		{"audio without files", runtimes.Request{Inputs: []runtimes.Input{{Type: abi.Audio}}}, "target laptop ships no file of aenc@1.0.0"},
		{"video", runtimes.Request{Inputs: []runtimes.Input{{Type: abi.Video}}}, "b has no encoder for video"},
		{"image out", runtimes.Request{Inputs: []runtimes.Input{{Type: abi.Text}}, Outputs: []string{"image"}}, "image output is not available"},
		{"tools", runtimes.Request{Inputs: []runtimes.Input{{Type: abi.Text}}, ToolsAllowed: []string{"chartqa"}}, "tool chartqa is not available: b has no router"},
	} {
		r := runner("x")
		_, err := r.Answer(context.Background(), tc.req, nil)
		if !errors.Is(err, runtimes.ErrUnavailable) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	r := runner("x")
	r.Assembly.Core.Files = nil
	if err := r.Open(context.Background()); !errors.Is(err, runtimes.ErrUnavailable) {
		t.Errorf("a core without files: %v", err)
	}
}

func TestSmoke(t *testing.T) {
	missed, n, err := runner("Once upon a time").Smoke(context.Background())
	if err != nil || n != 2 || len(missed) != 1 || missed[0].Want != "Twice" || !strings.HasPrefix(missed[0].Got, "Once") {
		t.Errorf("missed %+v of %d, %v", missed, n, err)
	}
}

// The request's own budget ends the answer; the caller's cancellation is an
// error.
func TestBudget(t *testing.T) {
	req := text("x")
	req.Preferences.BudgetMS = 1
	slow := func(string) error { time.Sleep(20 * time.Millisecond); return nil }
	a, err := runner("one two three").Answer(context.Background(), req, slow)
	if err != nil || a.Stop != runtimes.StopBudget || a.Text == "one two three" {
		t.Errorf("%+v, %v", a, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	_, err = runner("one two three").Answer(ctx, text("x"), func(string) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestSelect(t *testing.T) {
	gone := &runtimetest.Fake{Missing: &runtimes.Unavailable{What: "backend fake", Why: "gone"}}
	here := &runtimetest.Fake{}
	ctx := context.Background()
	if b, err := runtimes.Select(ctx, []runtimes.Backend{gone, here}, ""); err != nil || b != here {
		t.Errorf("%v, %v", b, err)
	}
	if _, err := runtimes.Select(ctx, []runtimes.Backend{gone}, ""); !errors.Is(err, runtimes.ErrUnavailable) {
		t.Errorf("nothing there: %v", err)
	}
	if _, err := runtimes.Select(ctx, []runtimes.Backend{gone}, "fake"); !errors.Is(err, runtimes.ErrUnavailable) {
		t.Errorf("named and gone: %v", err)
	}
	if _, err := runtimes.Select(ctx, nil, "qnn"); !errors.Is(err, runtimes.ErrUnavailable) {
		t.Errorf("unknown: %v", err)
	}
}
