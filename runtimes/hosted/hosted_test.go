package hosted

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/core/infer/sample"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/skills/sandbox"
)

var update = flag.Bool("update", false, "rewrite the requests under testdata")

// testKey is the key of all forms.
const testKey = "sk-test-key"

// double replays the exchanges of a transcript in testdata and checks the requests.
type double struct {
	t        *testing.T
	file     string
	list     []exchanged
	requests []string
}

// exchanged is a request and its response.
type exchanged struct{ request, head, body string }

func readTranscript(t *testing.T, name string) *double {
	t.Helper()
	d := &double{t: t, file: filepath.Join("testdata", name+".txt")}
	data, err := os.ReadFile(d.file)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(data), "=== request\n")[1:] {
		request, rest, ok := strings.Cut(part, "=== response ")
		head, body, more := strings.Cut(rest, "\n")
		if !ok || !more {
			t.Fatalf("%s: malformed", d.file)
		}
		d.list = append(d.list, exchanged{request, head, body})
	}
	return d
}

// ServeHTTP answers with the next response.
func (d *double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		d.t.Error(err)
	}
	var body bytes.Buffer
	if err := json.Indent(&body, data, "", "  "); err != nil {
		d.t.Error(err)
	}
	head := r.Method + " " + r.URL.String() + "\n"
	for _, name := range []string{"Anthropic-Version", "Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
		if v := r.Header.Get(name); v != "" {
			head += name + ": " + v + "\n"
		}
	}
	n := len(d.requests)
	d.requests = append(d.requests, head+body.String()+"\n")
	if n >= len(d.list) {
		d.t.Errorf("%s: request %d, want %d", d.file, n+1, len(d.list))
		return
	}
	status, kind, _ := strings.Cut(d.list[n].head, " ")
	kind, after, limited := strings.Cut(kind, "; retry-after=")
	if limited {
		w.Header().Set("Retry-After", after)
	}
	w.Header().Set("Content-Type", kind)
	code := 0
	if _, err := fmt.Sscan(status, &code); err != nil {
		d.t.Error(err)
	}
	w.WriteHeader(code)
	_, _ = io.WriteString(w, d.list[n].body)
}

// check compares the requests with those of the transcript, or writes them there.
func (d *double) check() {
	d.t.Helper()
	if len(d.requests) != len(d.list) {
		d.t.Fatalf("%s: got %d requests, want %d", d.file, len(d.requests), len(d.list))
	}
	if *update {
		var b strings.Builder
		for i, e := range d.list {
			b.WriteString("=== request\n" + d.requests[i] + "=== response " + e.head + "\n" + e.body)
		}
		if err := os.WriteFile(d.file, []byte(b.String()), 0o644); err != nil {
			d.t.Fatal(err)
		}
		return
	}
	for i, e := range d.list {
		if diff := cmp.Diff(e.request, d.requests[i]); diff != "" {
			d.t.Errorf("%s: request %d (-want +got):\n%s", d.file, i+1, diff)
		}
	}
}

// doubler calls a tool that doubles x.
type doubler struct{}

func (doubler) List() []skills.Info {
	return []skills.Info{{Name: "calc", Description: "Doubles x.", Inputs: []byte(`{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}`)}}
}

func (doubler) Call(_ context.Context, c abi.ToolCall, _ []sandbox.Asset) (skills.Answer, error) {
	x, err := c.Args["x"].(json.Number).Int64()
	if err != nil {
		return skills.Answer{}, err
	}
	return skills.Answer{Line: fmt.Sprintf(`{"y":%d}`, 2*x)}, nil
}

// replayed returns a model that the double answers, and the times that it waited.
func replayed(t *testing.T, d http.Handler, form Form) (*Model, *[]time.Duration) {
	t.Helper()
	s := httptest.NewServer(d)
	t.Cleanup(s.Close)
	var waits []time.Duration
	m, err := New(Options{
		Form: form, URL: s.URL, Model: "m", Env: func(string) string { return testKey }, Tools: runner.NewToolTable(doubler{}, nil, nil),
		Wait: func(d time.Duration) { waits = append(waits, d) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return m, &waits
}

// The requests and the answers of every form are those of the transcripts, which follow the
// documents of the providers.
func TestTranscripts(t *testing.T) {
	prefs := runner.Preferences{MaxTokens: 9, Stop: []string{"##"}}
	prefs.Temperature, prefs.TopP = 0.5, 0.25
	picture := talk.Part{Type: abi.Image, Data: []byte("\x89PNG\r\n\x1a\n")}
	full := runner.Request{Messages: []talk.Message{talk.Text(talk.System, "Be brief."), {Role: talk.User, Parts: []talk.Part{{Type: abi.Text, Text: "Hello"}, picture}}}, Preferences: prefs, ToolsAllowed: []string{}}
	tools := runner.Request{Messages: []talk.Message{talk.Text(talk.User, "Double 1 and 2.")}}
	bare := runner.Request{Inputs: []talk.Part{{Type: abi.Text, Text: "Hello"}}, ToolsAllowed: []string{}}
	for _, c := range []struct {
		name      string
		req       runner.Request
		text      string
		reasoning string
		stop      runtimes.Stop
		calls     int
		turns     int
		tokens    [3]int
		err       string
		hint      string
		is        error
		waits     string
	}{
		{name: "openai_text", req: full, text: "Grüß Gott 🌍", stop: runtimes.StopEnd, turns: 1, tokens: [3]int{20, 16, 5}},
		{name: "openai_tool", req: tools, text: "Let me see. 2 and 4.", stop: runtimes.StopEnd, calls: 2, turns: 4, tokens: [3]int{40, 32, 10}},
		{name: "openai_length", req: bare, text: "One", reasoning: "Hm.", stop: runtimes.StopLength, turns: 1},
		{name: "openai_key", req: bare, err: "the server refused the key (401): Incorrect API key provided: [key].", hint: "OPENAI_API_KEY"},
		{name: "openai_full", req: bare, err: "maximum context length", is: runtimes.ErrFull},
		{name: "openai_cut", req: bare, text: "Hel", err: "ended before the answer was complete", turns: 1},
		{name: "openai_broken", req: bare, text: "Hel", err: "the answer ended with an error: The server had an error", turns: 1},
		{name: "openai_busy", req: bare, text: "ok", stop: runtimes.StopEnd, turns: 1, waits: "[2s 1s]"},
		{name: "anthropic_text", req: full, text: "Grüß Gott 🌍", reasoning: "Hm.", stop: runtimes.StopEnd, turns: 1, tokens: [3]int{20, 16, 5}},
		{name: "anthropic_tool", req: tools, text: "Let me see. 2 and 4.", stop: runtimes.StopEnd, calls: 2, turns: 4, tokens: [3]int{40, 32, 10}},
		{name: "anthropic_busy", req: bare, text: "ok", stop: runtimes.StopLength, turns: 1, tokens: [3]int{20, 16, 1}, waits: "[500ms]"},
		{name: "anthropic_full", req: bare, err: "prompt is too long", is: runtimes.ErrFull},
		{name: "anthropic_broken", req: bare, err: "Overloaded", tokens: [3]int{20, 16, 1}},
		{name: "gemini_text", req: full, text: "Grüß Gott 🌍", reasoning: "Hm.", stop: runtimes.StopEnd, turns: 1, tokens: [3]int{20, 16, 5}},
		{name: "gemini_tool", req: tools, text: "Let me see. 2 and 4.", stop: runtimes.StopEnd, calls: 2, turns: 4, tokens: [3]int{40, 32, 10}},
		{name: "gemini_blocked", req: bare, err: "blocked the prompt: PROHIBITED_CONTENT"},
		{name: "gemini_safety", req: bare, text: "Well", stop: StopFilter, turns: 1, tokens: [3]int{20, 16, 5}},
		{name: "gemini_key", req: bare, err: "API key not valid"},
		{name: "gemini_full", req: bare, err: "exceeds the maximum number of tokens", is: runtimes.ErrFull},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := readTranscript(t, c.name)
			form, _, _ := strings.Cut(c.name, "_")
			m, waits := replayed(t, d, Form(form))
			emitted := ""
			a, err := m.Answer(t.Context(), c.req, func(text string) error { emitted += text; return nil })
			d.check()
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || c.is != nil && !errors.Is(err, c.is) {
				t.Fatalf("got error %v, want %q", err, c.err)
			}
			if err != nil && strings.Contains(err.Error(), testKey) {
				t.Errorf("the error has the key: %v", err)
			}
			var r *Refusal
			if errors.As(err, &r) && !strings.Contains(r.Hint(), c.hint) {
				t.Errorf("got hint %q, want %q", r.Hint(), c.hint)
			}
			if emitted != c.text || a.Text != c.text || a.Reasoning != c.reasoning || a.Stop != c.stop || len(a.Called) != c.calls || c.turns > 0 && len(a.Messages()) != c.turns {
				t.Errorf("got %q, %q, %q, %q, %d calls, %d turns", emitted, a.Text, a.Reasoning, a.Stop, len(a.Called), len(a.Messages()))
			}
			if got := [3]int{a.Timings.Prompt, a.Timings.Reused, a.Timings.Generated}; got != c.tokens {
				t.Errorf("got tokens %v, want %v", got, c.tokens)
			}
			if got := fmt.Sprint(*waits); c.waits != "" && got != c.waits || c.waits == "" && got != "[]" {
				t.Errorf("waited %s, want %s", got, c.waits)
			}
			if c.calls > 0 && a.Called[1].Line != `{"y":4}` {
				t.Errorf("got the result %s", a.Called[1].Line)
			}
		})
	}
}

// A key goes over HTTPS or to this machine, never from the URL, and not to another host.
func TestNew(t *testing.T) {
	for _, c := range []struct {
		opt  Options
		want string
	}{
		{Options{Form: "x", Model: "m"}, "want one of openai, anthropic, gemini"},
		{Options{Form: OpenAI}, "name of the model is missing"},
		{Options{Form: OpenAI, Model: "m", URL: "http://models.example/v1"}, "plain HTTP"},
		{Options{Form: OpenAI, Model: "m", URL: "http://10.0.0.1/v1"}, "plain HTTP"},
		{Options{Form: OpenAI, Model: "m", URL: "ftp://a"}, "want https://HOST"},
		{Options{Form: OpenAI, Model: "m", URL: "https://user:secret@a"}, "want https://HOST"},
		{Options{Form: OpenAI, Model: "m", URL: "https://a?key=x"}, "want https://HOST"},
		{Options{Form: OpenAI, Model: "m", Env: func(string) string { return "a\nb" }}, "characters that a header cannot"},
		{Options{Form: OpenAI, Model: "m", URL: "http://127.0.0.1:1/v1"}, ""},
		{Options{Form: OpenAI, Model: "m", URL: "http://[::1]:1/v1"}, ""},
		{Options{Form: OpenAI, Model: "m", URL: "http://localhost:1/v1/"}, ""},
		{Options{Form: Gemini, Model: "m"}, ""},
	} {
		m, err := New(c.opt)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.opt, err, c.want)
		}
		if err == nil && (m.Host() == "" || strings.HasSuffix(m.url, "/")) {
			t.Errorf("%+v: got %q %q", c.opt, m.Host(), m.url)
		}
	}
	m, err := New(Options{Form: Gemini, Model: "m", Env: func(name string) string {
		return map[string]string{"GOOGLE_API_KEY": " second "}[name]
	}})
	if err != nil || m.key != "second" {
		t.Errorf("got key %q, %v", m.key, err)
	}
}

// A redirect is not followed: the key would go along.
func TestRedirect(t *testing.T) {
	away := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer away.Close()
	m, _ := replayed(t, http.RedirectHandler(away.URL, http.StatusTemporaryRedirect), OpenAI)
	if _, err := m.Answer(t.Context(), runner.Request{ToolsAllowed: []string{}}, nil); err == nil || !strings.Contains(err.Error(), "not followed") {
		t.Errorf("got %v", err)
	}
}

// After the last retry, and if the server asks for more than mostWait, the refusal is the answer.
func TestRetries(t *testing.T) {
	for _, c := range []struct {
		after string
		want  int
	}{{"", retries + 1}, {"60", retries + 1}, {"61", 1}} {
		n := 0
		m, _ := replayed(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			n++
			w.Header().Set("Retry-After", c.after)
			w.WriteHeader(http.StatusTooManyRequests)
		}), OpenAI)
		if _, err := m.Answer(t.Context(), runner.Request{ToolsAllowed: []string{}}, nil); err == nil || n != c.want {
			t.Errorf("Retry-After %q: %d requests, want %d: %v", c.after, n, c.want, err)
		}
	}
}

// A cancelled context ends the wait and the stream.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	m, _ := replayed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the end of the client is seen
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n")
		_ = http.NewResponseController(w).Flush()
		close(begun)
		<-r.Context().Done()
	}), OpenAI)
	go func() { <-begun; cancel() }()
	if _, err := m.Answer(ctx, runner.Request{ToolsAllowed: []string{}}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A setting without a field in a form is refused by name.
func TestUnsupported(t *testing.T) {
	for name, c := range map[string]struct {
		form   Form
		change func(*runner.Request)
	}{
		"min_p":                          {OpenAI, func(r *runner.Request) { r.Preferences.MinP = 0.1 }},
		"repetition_penalty":             {OpenAI, func(r *runner.Request) { r.Preferences.RepeatPenalty = 1.1 }},
		"top_k":                          {OpenAI, func(r *runner.Request) { r.Preferences.TopK = 3 }},
		"seed":                           {Anthropic, func(r *runner.Request) { r.Preferences.Seed = 3 }},
		"a seed of more than 2147483647": {Gemini, func(r *runner.Request) { r.Preferences.Seed = math.MaxInt32 + 1 }},
		"a seed of more than 9223372036854775807": {OpenAI, func(r *runner.Request) { r.Preferences.Seed = math.MaxInt64 + 1 }},
		"cot":           {Gemini, func(r *runner.Request) { r.Preferences.CoT = true }},
		"a time budget": {Gemini, func(r *runner.Request) { r.Preferences.BudgetMS = 1 }},
		"an output":     {Gemini, func(r *runner.Request) { r.Outputs = []string{"image"} }},
		"audio/wav": {Anthropic, func(r *runner.Request) {
			r.Inputs = []talk.Part{{Type: abi.Audio, Data: []byte("RIFF\x00\x00\x00\x00WAVEfmt ")}}
		}},
		"text/plain": {OpenAI, func(r *runner.Request) { r.Inputs = []talk.Part{{Type: abi.Image, Data: []byte("hello")}} }},
	} {
		m, _ := replayed(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Errorf("%s was sent", name) }), c.form)
		req := runner.Request{ToolsAllowed: []string{}}
		c.change(&req)
		_, err := m.Answer(t.Context(), req, nil)
		var gone *runtimes.Unavailable
		if !errors.As(err, &gone) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// The largest seed of a form is sent as it is.
func TestSeed(t *testing.T) {
	for form, field := range map[Form]string{OpenAI: `"seed":9223372036854775807`, Gemini: `"seed":2147483647`} {
		sent := ""
		m, _ := replayed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			sent = string(body)
			w.WriteHeader(http.StatusBadRequest)
		}), form)
		_, _ = m.Answer(t.Context(), runner.Request{ToolsAllowed: []string{}, Inputs: talk.Text(talk.User, "x").Parts, Preferences: runner.Preferences{Options: sample.Options{Seed: mostSeed[form]}}}, nil)
		if !strings.Contains(sent, field) {
			t.Errorf("%s: sent %s, want %s", form, sent, field)
		}
	}
}

// The limits maxText, maxCalls, maxEvent, maxRefusal, maxReason and maxFile.
func TestLimits(t *testing.T) {
	x := &exchange{}
	if err := x.write(strings.Repeat("x", maxText)); err != nil {
		t.Error(err)
	}
	if err := x.think("y"); err == nil {
		t.Error("an answer beyond maxText")
	}
	x = &exchange{}
	if err := x.argue(&call{}, strings.Repeat("x", maxText/2), strings.Repeat("y", maxText/2)); err != nil {
		t.Error(err)
	}
	if err := x.argue(&call{}, "x", ""); err == nil {
		t.Error("names beyond maxText")
	}
	x = &exchange{}
	for i := range maxCalls {
		if _, err := x.call(i); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range []int{maxCalls, -1, maxCalls + 1} {
		if _, err := x.call(i); err == nil {
			t.Errorf("call %d", i)
		}
	}
	if _, err := (&exchange{}).call(1); err == nil {
		t.Error("an index is skipped")
	}
	m := &Model{form: form{wire: openai{}}}
	event := func(n int) string {
		head, tail := `{"choices":[{"delta":{"content":"`, `"}}]}`
		return "data:" + head + strings.Repeat("x", n-len(head)-len(tail)) + tail + "\n\ndata: [DONE]\n\n"
	}
	if err := m.read(&exchange{}, strings.NewReader(event(maxEvent-len("data:\n")))); err != nil {
		t.Error(err)
	}
	if err := m.read(&exchange{}, strings.NewReader(event(maxEvent+1))); err == nil || !strings.Contains(err.Error(), "exceeds") {
		t.Errorf("an event beyond maxEvent: %v", err)
	}
	half := "data:" + strings.Repeat(" ", maxEvent/2+8) + "\n"
	if err := m.read(&exchange{}, strings.NewReader(half+half)); err == nil || !strings.Contains(err.Error(), "exceeds") {
		t.Errorf("lines of an event beyond maxEvent: %v", err)
	}
	for n, want := range map[int]int{maxReason: maxReason, maxReason + 1: maxReason + len("…")} {
		if got := len(shown(strings.Repeat("x", n))); got != want {
			t.Errorf("a reason of %d bytes: got %d, want %d", n, got, want)
		}
	}
	body := &countingBody{}
	_ = m.refusalFor(body)
	if body.n > maxRefusal {
		t.Errorf("read %d bytes of a refusal, want at most maxRefusal", body.n)
	}
	png := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, maxFile)...)
	for n, ok := range map[int]bool{maxFile: true, maxFile + 1: false} {
		if _, err := mediumOf(talk.Part{Type: abi.Image, Data: png[:n]}, OpenAI, pictures...); (err == nil) != ok {
			t.Errorf("a file of %d bytes: %v", n, err)
		}
	}
}

// Every system turn is sent, turns of one role are one, and a turn of nothing is left out.
func TestTurns(t *testing.T) {
	x := &exchange{turns: []talk.Message{
		talk.Text(talk.System, "a"), talk.Text(talk.User, "b"), {Role: talk.Assistant}, talk.Text(talk.System, "c"), talk.Text(talk.User, "d"),
	}}
	for want, w := range map[string]wire{
		`{"max_tokens":4096,"messages":[{"content":[{"text":"b","type":"text"},{"text":"d","type":"text"}],"role":"user"}],"model":"","stream":true,"system":"ac"}`: anthropic{},
		`{"contents":[{"parts":[{"text":"b"},{"text":"d"}],"role":"user"}],"systemInstruction":{"parts":[{"text":"ac"}]}}`:                                          gemini{},
	} {
		_, body, err := w.request(&Model{}, x)
		if got, errJSON := json.Marshal(body); err != nil || errJSON != nil || string(got) != want {
			t.Errorf("got %s, %v, %v, want %s", got, err, errJSON, want)
		}
	}
}

// A server's text neither moves the cursor nor hides characters.
func TestShown(t *testing.T) {
	if got, want := shown(" a\n\tb\x1b[2J\u202ec\xff "), `a b\x1b[2J\u202ec\xff`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// countingBody is an endless body.
type countingBody struct{ n int }

func (b *countingBody) Read(p []byte) (int, error) { b.n += len(p); return len(p), nil }
func (*countingBody) Close() error                 { return nil }

func (m *Model) refusalFor(body io.ReadCloser) error {
	m.form.variables = []string{"KEY"}
	return m.refusal(&http.Response{StatusCode: 400, Body: body})
}

// A conversation keeps the turns of calls, and asks with them again.
func TestConversation(t *testing.T) {
	d := readTranscript(t, "openai_tool")
	m, _ := replayed(t, d, OpenAI)
	c := &runner.Conversation{Runner: m}
	if _, err := c.Ask(t.Context(), "Double 1 and 2.", nil); err != nil {
		t.Fatal(err)
	}
	var roles []string
	for _, turn := range c.Messages() {
		roles = append(roles, string(turn.Role))
	}
	if got := strings.Join(roles, " "); got != "user assistant tool tool assistant" || c.Messages()[2].CallID != "call_a" {
		t.Errorf("got %s", got)
	}
}

// FuzzEvents reads streams of every form.
func FuzzEvents(f *testing.F) {
	names, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(names) == 0 {
		f.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, w := range []wire{openai{}, anthropic{}, gemini{}} {
			m := &Model{form: form{wire: w, variables: []string{"KEY"}}}
			x := &exchange{answer: &runner.Answer{}, signatures: map[string]string{}}
			_ = m.read(x, bytes.NewReader(data))
			for _, c := range x.take() {
				if !json.Valid(c.Arguments) {
					t.Errorf("invalid arguments %q", c.Arguments)
				}
			}
			if x.text.Len()+x.reasoning.Len() > maxText {
				t.Error("the text exceeds its limit")
			}
		}
		reasonOf(data)
	})
}
