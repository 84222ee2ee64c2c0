package otlp

import (
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mm-abi.org/mm/serve/api"
)

// span is a span of the protocol in JSON: 64-bit numbers are strings.
type span struct {
	TraceID    string      `json:"traceId"`
	SpanID     string      `json:"spanId"`
	ParentID   string      `json:"parentSpanId,omitempty"`
	Name       string      `json:"name"`
	Kind       int         `json:"kind"`
	Start      string      `json:"startTimeUnixNano"`
	End        string      `json:"endTimeUnixNano"`
	Attributes []attribute `json:"attributes"`
	Events     []event     `json:"events,omitempty"`
	Status     status      `json:"status"`
}

type attribute struct {
	Key   string         `json:"key"`
	Value map[string]any `json:"value"`
}

type event struct {
	Time string `json:"timeUnixNano"`
	Name string `json:"name"`
}

type status struct {
	Code int `json:"code,omitempty"` // 0: unset, 2: error
}

// server is the kind of spans of a server; failed is the code of their errors.
const (
	server = 2
	failed = 2
)

func text(key, v string) attribute { return attribute{key, map[string]any{"stringValue": v}} }

func number(key string, v int) attribute {
	return attribute{key, map[string]any{"intValue": strconv.Itoa(v)}}
}

func seconds(key string, d time.Duration) attribute {
	return attribute{key, map[string]any{"doubleValue": d.Seconds()}}
}

// operations are the names of what routes do, by OpenTelemetry's conventions for
// generative models.
var operations = map[string]string{
	"/v1/chat/completions": "chat", "/v1/responses": "chat", "/v1/messages": "chat", "/api/chat": "chat", "/infer": "chat",
	"/v1/completions": "text_completion", "/api/generate": "text_completion", "/v1/embeddings": "embeddings", "/api/embed": "embeddings", "/api/embeddings": "embeddings",
}

// span converts a span; ok is false if the sampler leaves it out.
func (e *Exporter) span(s api.Span) (out span, ok bool) {
	var trace [16]byte
	var id [8]byte
	e.random(trace[:])
	e.random(id[:])
	if s.Parent.Known() {
		trace = s.Parent.Trace
		out.ParentID = hex.EncodeToString(s.Parent.Span[:])
	}
	if !(s.Parent.Known() && e.cfg.parent) && !e.cfg.sampled(trace) {
		return out, false
	}
	out.TraceID, out.SpanID, out.Kind = hex.EncodeToString(trace[:]), hex.EncodeToString(id[:]), server
	out.Start, out.End = nanos(s.Begin), nanos(s.End)
	out.Name = s.Method + " " + s.Route
	out.Attributes = []attribute{text("http.request.method", s.Method), text("http.route", s.Route), number("http.response.status_code", s.Status), text("mm.request.id", s.RequestID)}
	if s.Status >= http.StatusInternalServerError {
		out.Status.Code = failed
	}
	if s.Status >= http.StatusBadRequest {
		out.Attributes = append(out.Attributes, text("error.type", strconv.Itoa(s.Status)))
	}
	if s.Model == "" {
		return out, true
	}
	out.Attributes = append(out.Attributes, text("gen_ai.provider.name", "mm"), text("gen_ai.request.model", s.Model), seconds("mm.queue.seconds", s.Queued))
	if operation := operations[s.Route]; operation != "" {
		out.Name = strings.TrimSpace(operation + " " + s.Model)
		out.Attributes = append(out.Attributes, text("gen_ai.operation.name", operation))
	}
	if s.Prompt+s.Generated > 0 {
		out.Attributes = append(out.Attributes, number("gen_ai.usage.input_tokens", s.Prompt), number("gen_ai.usage.output_tokens", s.Generated), number("mm.usage.cached_tokens", s.Cached))
	}
	if s.First > 0 {
		out.Attributes = append(out.Attributes, seconds("gen_ai.server.time_to_first_token", s.First))
		out.Events = []event{{nanos(s.Begin.Add(s.First)), "first text"}}
	}
	return out, true
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }
