// Package tracktest imitates a server of MLflow for tests, after version 3.17.
package tracktest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// Server answers as a server of MLflow does. The connection of request Cut, counted from
// 1, breaks after it took effect.
type Server struct {
	Cut      int
	Requests int

	mu       sync.Mutex
	Runs     map[string]*Run // nil: no experiment
	Versions []Version
	Aliases  map[string]string
	models   map[string]bool
}

// Run is a run at the server.
type Run struct {
	Tags, Params map[string]string
	Metrics      []Figure
	Inputs       []string // NAME DIGEST
	Status, Log  string
}

// Figure is a metric at a step.
type Figure struct {
	Key  string
	Step int64
}

// Version is a version of a model.
type Version struct {
	Version string `json:"version"`
	Source  string `json:"source"`
}

type tag struct{ Key, Value string }

// ServeHTTP implements http.Handler.
func (d *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	data, _ := io.ReadAll(r.Body)
	d.Requests++
	if d.Requests == d.Cut {
		d.answer(httptest.NewRecorder(), r, data)
		panic(http.ErrAbortHandler)
	}
	d.answer(w, r, data)
}

func fail(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error_code": %q, "message": "m"}`, code)
}

func (d *Server) answer(w http.ResponseWriter, r *http.Request, data []byte) {
	var in struct {
		Run     string `json:"run_id"`
		Filter  string
		Tags    []tag
		Params  []tag
		Status  string
		Name    string
		Source  string
		Alias   string
		Version string
		Metrics []struct {
			Key   string
			Value any
			Step  int64
		}
		Datasets []struct{ Dataset struct{ Name, Digest string } }
	}
	if r.Method == http.MethodPost {
		if r.Header.Get("Content-Type") != "application/json" {
			fail(w, 400, "INVALID_PARAMETER_VALUE")
			return
		}
		if err := json.Unmarshal(data, &in); err != nil {
			fail(w, 400, "MALFORMED_REQUEST")
			return
		}
	}
	put := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	switch path := strings.TrimPrefix(r.URL.Path, "/api/2.0/mlflow/"); path {
	case "experiments/get-by-name":
		if d.Runs == nil {
			fail(w, 404, "RESOURCE_DOES_NOT_EXIST")
			return
		}
		put(map[string]any{"experiment": map[string]any{"experiment_id": "1", "lifecycle_stage": "active"}})
	case "experiments/create":
		if d.Runs != nil {
			fail(w, 400, "RESOURCE_ALREADY_EXISTS")
			return
		}
		d.Runs = map[string]*Run{}
		put(map[string]any{"experiment_id": "1"})
	case "runs/create":
		id := fmt.Sprintf("r%d", len(d.Runs))
		d.Runs[id] = &Run{Tags: map[string]string{}, Params: map[string]string{}}
		for _, t := range in.Tags {
			d.Runs[id].Tags[t.Key] = t.Value
		}
		put(map[string]any{"run": map[string]any{"info": map[string]any{"run_id": id, "artifact_uri": "mlflow-artifacts:/1/" + id + "/artifacts"}}})
	case "runs/search":
		list := []any{}
		for id, run := range d.Runs {
			if in.Filter != fmt.Sprintf("tags.`mm.run` = '%s'", run.Tags["mm.run"]) {
				continue
			}
			last := map[string]map[string]any{}
			for _, m := range run.Metrics {
				last[m.Key] = map[string]any{"key": m.Key, "step": fmt.Sprint(m.Step)}
			}
			var metrics, params, inputs []any
			for k, v := range run.Params {
				params = append(params, map[string]any{"key": k, "value": v})
			}
			for _, m := range last {
				metrics = append(metrics, m)
			}
			for _, i := range run.Inputs {
				name, digest, _ := strings.Cut(i, " ")
				inputs = append(inputs, map[string]any{"dataset": map[string]string{"name": name, "digest": digest}})
			}
			list = append(list, map[string]any{
				"info": map[string]any{"run_id": id, "artifact_uri": "mlflow-artifacts:/1/" + id + "/artifacts"},
				"data": map[string]any{"metrics": metrics, "params": params}, "inputs": map[string]any{"dataset_inputs": inputs},
			})
		}
		put(map[string]any{"runs": list})
	case "runs/log-batch":
		run := d.Runs[in.Run]
		if run == nil || len(in.Metrics) > 1000 || len(in.Params) > 100 || len(in.Tags) > 100 {
			fail(w, 400, "INVALID_PARAMETER_VALUE")
			return
		}
		for _, p := range in.Params {
			if old, ok := run.Params[p.Key]; ok && old != p.Value {
				fail(w, 400, "INVALID_PARAMETER_VALUE")
				return
			}
			run.Params[p.Key] = p.Value
		}
		for _, t := range in.Tags {
			run.Tags[t.Key] = t.Value
		}
		for _, m := range in.Metrics {
			run.Metrics = append(run.Metrics, Figure{Key: m.Key, Step: m.Step})
		}
		put(map[string]any{})
	case "runs/log-inputs":
		for _, i := range in.Datasets {
			d.Runs[in.Run].Inputs = append(d.Runs[in.Run].Inputs, i.Dataset.Name+" "+i.Dataset.Digest)
		}
		put(map[string]any{})
	case "runs/update":
		d.Runs[in.Run].Status = in.Status
		put(map[string]any{})
	default:
		d.registry(w, r, in.Name, in.Source, in.Alias, in.Version, data)
	}
}

// registry answers the requests of the model registry, and those for artifacts.
func (d *Server) registry(w http.ResponseWriter, r *http.Request, name, source, alias, version string, data []byte) {
	put := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	switch path := strings.TrimPrefix(r.URL.Path, "/api/2.0/mlflow/"); path {
	case "registered-models/create":
		if d.models[name] {
			fail(w, 400, "RESOURCE_ALREADY_EXISTS")
			return
		}
		d.models = map[string]bool{name: true}
		put(map[string]any{})
	case "model-versions/search":
		put(map[string]any{"model_versions": d.Versions})
	case "model-versions/create":
		d.Versions = append(d.Versions, Version{fmt.Sprint(len(d.Versions) + 1), source})
		put(map[string]any{"model_version": d.Versions[len(d.Versions)-1]})
	case "registered-models/alias":
		d.Aliases = map[string]string{alias: version}
		put(map[string]any{})
	default:
		if r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, "/api/2.0/mlflow-artifacts/artifacts/1/") {
			d.Runs[strings.Split(r.URL.Path, "/")[6]].Log = string(data)
			return
		}
		fail(w, 404, "ENDPOINT_NOT_FOUND")
	}
}
