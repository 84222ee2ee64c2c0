package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/serve/api"
)

// state is the state of a job.
type state string

// The states. A job ends in one of the last three.
const (
	queued    state = "queued"
	running   state = "running"
	succeeded state = "succeeded"
	failed    state = "failed"
	cancelled state = "cancelled"
)

// job is a job. The mutex of [Jobs] guards it.
type job struct {
	id, kind, key string
	ref           string // graph, or model
	limit         time.Duration
	work          work

	state                   state
	created, started, ended time.Time
	result                  json.RawMessage
	fault                   *fault

	events  []event
	count   int           // of events, lost ones included
	changed chan struct{} // closed and replaced with each event
	stop    context.CancelCauseFunc
}

// work computes the result of a job. It reports events, and returns the digest of the build
// that it composed or measured.
type work func(ctx context.Context, t *api.Task, report func(name string, v any)) (result any, digest string, err error)

// event is an event of a job. Its number is its index among all of them plus one.
type event struct {
	name string
	data any
}

// fault describes why a job failed.
type fault struct {
	Message     string    `json:"message"`
	Code        string    `json:"code"`
	Diagnostics diag.List `json:"diagnostics,omitempty"`
}

// The reasons of a cancelled context.
var (
	errCancelled = errors.New("the client cancelled the job")
	errTime      = errors.New("the job exceeded its time limit")
)

// view is a job as clients see it.
type view struct {
	ID      string          `json:"id"`
	Kind    string          `json:"kind"`
	State   state           `json:"state"`
	Created int64           `json:"created_at"`
	Started *int64          `json:"started_at"`
	Ended   *int64          `json:"ended_at"`
	Limit   float64         `json:"timeout_s"`
	Result  json.RawMessage `json:"result"`
	Fault   *fault          `json:"error"`
}

// view returns the job as clients see it.
func (one *job) view() view {
	return view{one.id, one.kind, one.state, one.created.Unix(), second(one.started), second(one.ended), one.limit.Seconds(), one.result, one.fault}
}

func second(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	n := t.Unix()
	return &n
}

func (one *job) over() bool { return !one.ended.IsZero() }

// add appends an event and wakes the watchers.
func (one *job) add(name string, v any) {
	if len(one.events) == maxEvents {
		one.events = append(one.events[:0], one.events[1:]...)
	}
	one.events, one.count = append(one.events, event{name, v}), one.count+1
	close(one.changed)
	one.changed = make(chan struct{})
}

// enter moves the job to a state.
func (one *job) enter(s state) {
	one.state = s
	if one.over() {
		one.add("done", one.view())
		return
	}
	one.add("state", map[string]any{"state": s})
}

// since returns the events after a number, and the number of the first of them.
func (one *job) since(n int) (list []event, first int) {
	lost := one.count - len(one.events)
	n = min(max(n, lost), one.count)
	return one.events[n-lost:], n + 1
}

// finish ends a job.
func (j *Jobs) finish(one *job, result any, err error) {
	one.ended = j.server.Now()
	if err == nil {
		one.result, err = json.Marshal(result)
	}
	end := succeeded
	switch {
	case err == nil:
	case errors.Is(err, errCancelled), api.Shutdown(err):
		end, one.fault = cancelled, j.explain(err)
	default:
		end, one.fault = failed, j.explain(err)
	}
	one.work, one.stop = nil, nil
	one.enter(end)
	j.forget(one.key)
}

// maxMessage bounds the bytes of a fault's message.
const maxMessage = 16 << 10

// explain describes an error with paths below the folder of jobs.
func (j *Jobs) explain(err error) *fault {
	text := strings.ReplaceAll(err.Error(), j.dir+string(filepath.Separator), "")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	f := &fault{Message: text, Code: "failed"}
	var faults *diag.Faults
	var refused *api.Error
	switch {
	case errors.As(err, &faults):
		f.Code, f.Message, f.Diagnostics = "invalid_input", fmt.Sprintf("%d faults", faults.List.Count(diag.Error)), j.faults(faults.List)
	case errors.As(err, &refused) && refused.Code != "":
		f.Code = refused.Code
	case errors.Is(err, errCancelled):
		f.Code = "cancelled"
	case errors.Is(err, errTime):
		f.Code = "timeout"
	}
	return f
}

// maxFaults bounds the diagnostics of a job.
const maxFaults = 100

// faults returns diagnostics with paths below the folder of jobs.
func (j *Jobs) faults(list diag.List) diag.List {
	out := make(diag.List, 0, min(len(list), maxFaults))
	for _, d := range list[:min(len(list), maxFaults)] {
		d.Pos.File = j.relative(d.Pos.File)
		d.Detail = strings.ReplaceAll(d.Detail, j.dir+string(filepath.Separator), "")
		out = append(out, d)
	}
	return out
}

// relative returns a path relative to the folder of jobs, with slashes.
func (j *Jobs) relative(path string) string {
	if rest, ok := strings.CutPrefix(path, j.dir+string(filepath.Separator)); ok {
		return filepath.ToSlash(rest)
	}
	return path
}
