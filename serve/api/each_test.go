package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/serve/api"
)

// seeded answers with the seed of the request, in two pieces.
type seeded struct {
	*scripted
	mu    sync.Mutex
	seeds map[uint64]int
	fail  bool

	panics bool
}

func (s *seeded) Answer(ctx context.Context, req runner.Request, emit func(string) error) (*runner.Answer, error) {
	seed := req.Preferences.Seed
	s.mu.Lock()
	s.seeds[seed]++
	s.mu.Unlock()
	if s.panics {
		panic("broken")
	}
	if s.fail && seed != 7 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if s.fail {
		return nil, fmt.Errorf("seed %d broke", seed)
	}
	a := &runner.Answer{Text: fmt.Sprintf("seed %d", seed), Timings: runner.Timings{Prompt: 12, Reused: 8, Generated: 2}}
	for _, piece := range []string{a.Text[:5], a.Text[5:]} {
		if err := emit(piece); err != nil {
			return a, err
		}
	}
	return a, nil
}

// choices answers a request for three choices and returns their texts.
func choices(t *testing.T, s *api.Server, path, body string) (texts [3]string, usage string) {
	t.Helper()
	w := do(t, s, request("POST", path, body))
	if w.Code != 200 {
		t.Fatalf("%s: got %d %s", path, w.Code, w.Body)
	}
	lines := bufio.NewScanner(strings.NewReader(w.Body.String()))
	ended := 0
	for lines.Scan() {
		data := strings.TrimPrefix(lines.Text(), "data: ")
		if data == "" || data == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct {
				Index          int
				Text           string
				Message, Delta struct{ Content string }
				Finish         *string `json:"finish_reason"`
			}
			Usage json.RawMessage
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatal(err)
		}
		for _, one := range chunk.Choices {
			if texts[one.Index] += one.Text + one.Message.Content + one.Delta.Content; one.Finish != nil {
				ended++
			}
		}
		if chunk.Usage != nil {
			usage = string(chunk.Usage)
		}
	}
	if ended != 3 {
		t.Errorf("%s: %d choices ended", path, ended)
	}
	return texts, usage
}

// Each choice has a separate seed, the first that of the request. The usage counts the
// prompt once.
func TestEach(t *testing.T) {
	m := &seeded{scripted: newScripted(), seeds: map[uint64]int{}}
	s, _ := world(t, func(o *api.Options) { o.Models[0].Answerer, o.Parallel = m, 2 })
	const more = `"n":3,"seed":7,"temperature":1`
	for _, stream := range []string{"", `,"stream":true,"stream_options":{"include_usage":true}`} {
		for path, body := range map[string]string{
			"/v1/chat/completions": chatBody("hi", ","+more+stream), "/v1/completions": `{"prompt":"hi",` + more + stream + `}`,
		} {
			clear(m.seeds)
			texts, usage := choices(t, s, path, body)
			if texts[0] != "seed 7" || len(m.seeds) != 3 || texts[1] == texts[2] || !strings.HasPrefix(texts[2], "seed ") {
				t.Errorf("%s%s: got %q", path, stream, texts)
			}
			if !strings.Contains(usage, `"prompt_tokens":12,"completion_tokens":6,"total_tokens":18`) {
				t.Errorf("%s%s: got %s", path, stream, usage)
			}
		}
	}
	m.fail = true
	if w := do(t, s, request("POST", "/v1/chat/completions", chatBody("hi", `,"n":2,"seed":7`))); w.Code != 500 || !strings.Contains(w.Body.String(), "seed 7 broke") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	m.panics = true
	if w := do(t, s, request("POST", "/v1/chat/completions", chatBody("hi", `,"n":2`))); w.Code != 500 || !strings.Contains(w.Body.String(), "internal error: broken") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	until(t, s, "mm_requests_running", "0")
}

// A client may want one call at most.
func TestSingleCall(t *testing.T) {
	s, _ := world(t, nil)
	for more, want := range map[string]int{"": 2, `,"parallel_tool_calls":true`: 2, `,"parallel_tool_calls":false`: 1} {
		w := do(t, s, request("POST", "/v1/chat/completions", chatBody("call", chatTool+more)))
		if n := strings.Count(w.Body.String(), `"type":"function"`); n != want || !strings.Contains(w.Body.String(), `"tool_calls"`) {
			t.Errorf("%s: got %d calls, want %d: %s", more, n, want, w.Body)
		}
	}
}
