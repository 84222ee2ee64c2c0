// Package hosted asks a language model of another server: in the wire form of OpenAI, of
// Anthropic or of Gemini. It answers the requests of a [runner.Conversation] as a runner does,
// and the tools that it offers are skills of this machine: [runner.ToolLoop] performs their calls in
// the same sandboxes, under the same permissions and limits.
//
// A key is sent over HTTPS, or to this machine. Redirects are not followed. A setting
// that a wire form does not support is refused by name; an event and an answer are bounded.
package hosted

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"mm-abi.org/mm/internal/httpx"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/runtimes/talk"
)

// Form is a wire form.
type Form string

// The forms.
const (
	OpenAI    Form = "openai"
	Anthropic Form = "anthropic"
	Gemini    Form = "gemini"
)

// StopFilter is the reason of an answer that the provider withheld.
const StopFilter runtimes.Stop = "filter"

// Forms lists the forms.
func Forms() []string { return []string{string(OpenAI), string(Anthropic), string(Gemini)} }

// wire translates requests and events.
type wire interface {
	// request returns the path below the URL and the body of a streamed answer.
	request(m *Model, x *exchange) (path string, body any, err error)
	// authorize adds the key, which may be empty, to the headers.
	authorize(h http.Header, key string)
	// event reads an event and reports whether the answer is complete.
	event(x *exchange, data []byte) (done bool, err error)
}

// form describes a form: its wire, the URL of its provider and the variables of its key.
type form struct {
	wire      wire
	url       string
	variables []string
}

func forms(f Form) (form, bool) {
	switch f {
	case OpenAI:
		return form{openai{}, openaiURL, []string{"OPENAI_API_KEY"}}, true
	case Anthropic:
		return form{anthropic{}, "https://api.anthropic.com", []string{"ANTHROPIC_API_KEY"}}, true
	case Gemini:
		return form{gemini{}, "https://generativelanguage.googleapis.com/v1beta", []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}}, true
	}
	return form{}, false
}

// Options configures a [Model].
type Options struct {
	Form  Form
	URL   string               // of the server; "": the provider's
	Model string               // its name there
	Env   func(string) string  // the environment, which holds the key
	Tools *runner.ToolTable    // may be nil
	Loop  runner.ToolOptions   // of each answer; Only is the request's
	Wait  func(time.Duration)  // for a retry; nil: time.Sleep within the context
	HTTP  http.RoundTripper    // nil: that of net/http
	Say   func(message string) // receives retries; may be nil
}

// Model is a model of another server. It is safe for concurrent use.
type Model struct {
	opt  Options
	form form
	url  string
	key  string
	http *http.Client
}

// New returns a model. Nothing is sent.
func New(opt Options) (*Model, error) {
	f, ok := forms(opt.Form)
	if !ok {
		return nil, fmt.Errorf("provider %q: want one of %s", opt.Form, strings.Join(Forms(), ", "))
	}
	if opt.Model == "" {
		return nil, errors.New("the name of the model is missing")
	}
	m := &Model{opt: opt, form: f, url: strings.TrimSuffix(cmp.Or(opt.URL, f.url), "/")}
	for _, name := range f.variables {
		if m.key == "" && opt.Env != nil {
			m.key = strings.TrimSpace(opt.Env(name))
		}
	}
	u, err := url.Parse(m.url)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("URL of the server: got %.80q, want https://HOST or http://HOST:PORT", m.url)
	}
	if u.Scheme == "http" && !httpx.IsLoopback(u.Hostname()) {
		return nil, fmt.Errorf("URL of the server: %s is plain HTTP and not this machine: neither a key nor a conversation is sent there", u.Host)
	}
	if strings.ContainsFunc(m.key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("%s holds characters that a header cannot", f.variables[0])
	}
	m.http = &http.Client{Transport: opt.HTTP, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return m, nil
}

// Host returns the host and the port of the server.
func (m *Model) Host() string {
	u, _ := url.Parse(m.url) // New parsed it
	return u.Host
}

// Answer asks the model and performs the calls of tools, as [runner.Runner.Answer] does.
func (m *Model) Answer(ctx context.Context, req runner.Request, emit func(text string) error) (*runner.Answer, error) {
	if err := m.supports(req); err != nil {
		return nil, err
	}
	x := &exchange{emit: emit, reasoned: req.Reasoned, prefs: req.Preferences, answer: &runner.Answer{}, begun: time.Now(), signatures: map[string]string{}}
	x.turns = slices.Clone(req.Messages)
	if req.Messages == nil {
		x.turns = []talk.Message{{Role: talk.User, Parts: req.Inputs}}
	}
	loop, err := m.begin(req)
	if err != nil {
		return nil, err
	}
	if x.tools = req.Tools; loop != nil {
		x.tools = loop.Definitions()
	}
	for {
		if err := m.ask(ctx, x); err != nil {
			return x.finish(), err
		}
		calls := x.take()
		if loop == nil || len(calls) == 0 {
			x.answer.Calls = calls
			if len(calls) > 0 && x.answer.Stop == runtimes.StopEnd {
				x.answer.Stop = runner.StopCall
			}
			return x.finish(), nil
		}
		stop, err := x.perform(ctx, loop, calls)
		if stop != "" {
			x.answer.Stop = stop
		}
		if stop != "" || err != nil {
			return x.finish(), err
		}
	}
}

// begin starts the calls of an answer; without tools it returns nil.
func (m *Model) begin(req runner.Request) (*runner.ToolLoop, error) {
	if m.opt.Tools == nil || len(req.Tools) > 0 || req.ToolsAllowed == nil && len(m.opt.Tools.Ready()) == 0 {
		return nil, nil
	}
	opt := m.opt.Loop
	opt.Only = req.ToolsAllowed
	return m.opt.Tools.Begin(opt)
}

// mostSeed is the largest seed of a form: another one would silently be that of other answers.
var mostSeed = map[Form]uint64{OpenAI: math.MaxInt64, Gemini: math.MaxInt32}

// supports refuses what no form has a field for.
func (m *Model) supports(req runner.Request) error {
	p := req.Preferences
	unsupported := map[string]bool{
		"min_p": p.MinP != 0, "repetition_penalty": p.RepeatPenalty != 0 && p.RepeatPenalty != 1, "cot": p.CoT, "a grammar": p.Grammar != nil || p.Allow != nil,
		"a time budget": p.BudgetMS != 0, "a text without a template": req.Plain, "an output other than text": len(req.Outputs) > 1 || len(req.Outputs) == 1 && req.Outputs[0] != "text",
		"seed": p.Seed != 0 && m.opt.Form == Anthropic, fmt.Sprintf("a seed of more than %d", mostSeed[m.opt.Form]): p.Seed > mostSeed[m.opt.Form] && m.opt.Form != Anthropic,
		"top_k": p.TopK != 0 && m.opt.Form == OpenAI,
	}
	for _, name := range slices.Sorted(maps.Keys(unsupported)) {
		if unsupported[name] {
			return &runtimes.Unavailable{What: name, Why: "the servers of " + string(m.opt.Form) + " do not support it"}
		}
	}
	return nil
}
