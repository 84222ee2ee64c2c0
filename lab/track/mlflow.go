package track

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mm-abi.org/mm/internal/httpx"
	"mm-abi.org/mm/train"
)

// The limits of MLflow and of its answers.
const (
	maxBatch    = 1000 // metrics in a request
	maxParams   = 100  // parameters or tags in a request
	maxAnswer   = 16 << 20
	maxArtifact = 64 << 20 // bytes of a log that is sent as an artifact
	attempts    = 5
	maxWait     = time.Minute // that a server may ask for
)

// Server is a tracking server of MLflow.
type Server struct {
	base   string
	client *http.Client
	header http.Header
	pause  time.Duration // before the second attempt
}

// NewServer returns the server at an address. The environment has its credentials, as for
// MLflow's own client: MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and
// MLFLOW_TRACKING_PASSWORD. A redirect to another server is not followed.
func NewServer(address string, env func(string) string) (*Server, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
		return nil, errors.New("server: malformed address, want http://HOST:PORT") // it may hold a password
	}
	s := &Server{base: strings.TrimSuffix(u.Scheme+"://"+u.Host+u.Path, "/"), header: http.Header{}, pause: time.Second / 4}
	s.client = &http.Client{Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r := &http.Request{Header: s.header}
	switch {
	case env("MLFLOW_TRACKING_TOKEN") != "":
		r.Header.Set("Authorization", "Bearer "+env("MLFLOW_TRACKING_TOKEN"))
	case env("MLFLOW_TRACKING_USERNAME") != "":
		r.SetBasicAuth(env("MLFLOW_TRACKING_USERNAME"), env("MLFLOW_TRACKING_PASSWORD"))
	case u.User != nil:
		password, _ := u.User.Password()
		r.SetBasicAuth(u.User.Username(), password)
	}
	return s, nil
}

// Fault is an error that a server answered.
type Fault struct {
	Status        int
	Code, Message string
}

// Error implements error.
func (f *Fault) Error() string {
	return fmt.Sprintf("MLflow: status %d, %s: %.300s", f.Status, cmp.Or(f.Code, "no code"), f.Message)
}

func isFault(err error, code string) bool {
	var f *Fault
	return errors.As(err, &f) && f.Code == code
}

// call sends a request of the REST API and decodes the answer into out.
func (s *Server) call(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	data, err := s.do(ctx, method, s.base+"/api/2.0/mlflow/"+path, "application/json", body)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("MLflow: malformed answer of %s: %w", path, err)
	}
	return nil
}

// passing marks an error that may pass: a request may have taken effect without an
// answer, so the work begins again, from the figures that the server then has.
type passing struct {
	error
	after time.Duration // that the server asks to wait
}

// Unwrap returns the error.
func (p passing) Unwrap() error { return p.error }

// again repeats work that fails with errors that may pass.
func (s *Server) again(ctx context.Context, work func() error) error {
	pause := s.pause
	for i := 1; ; i++ {
		err := work()
		var p passing
		if err == nil || !errors.As(err, &p) || i == attempts || p.after > maxWait {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(max(pause, p.after)):
		}
		pause *= 2
	}
}

// do sends a request.
func (s *Server) do(ctx context.Context, method, address, kind string, body []byte) (data []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = s.header.Clone()
	if body != nil {
		r.Header.Set("Content-Type", kind)
	}
	resp, err := s.client.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, passing{error: err}
	}
	defer resp.Body.Close()
	data, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, passing{error: err}
	}
	if len(data) > maxAnswer {
		return nil, fmt.Errorf("MLflow: the answer exceeds %d bytes", maxAnswer)
	}
	if resp.StatusCode/100 == 2 {
		return data, nil
	}
	f := &Fault{Status: resp.StatusCode, Message: string(bytes.TrimSpace(data))}
	var answer struct {
		Code    string `json:"error_code"`
		Message string `json:"message"`
	}
	if json.Unmarshal(data, &answer) == nil && answer.Code != "" {
		f.Code, f.Message = answer.Code, answer.Message
	}
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500 {
		after, _ := httpx.RetryAfter(resp.Header, time.Now())
		return nil, passing{f, after}
	}
	return nil, f
}

// experiment returns the id of an experiment, which it creates if it is missing.
func (s *Server) experiment(ctx context.Context, name string) (string, error) {
	var got struct {
		Experiment struct {
			ID    string `json:"experiment_id"`
			Stage string `json:"lifecycle_stage"`
		} `json:"experiment"`
		ID string `json:"experiment_id"`
	}
	get := "experiments/get-by-name?experiment_name=" + url.QueryEscape(name)
	err := s.call(ctx, http.MethodGet, get, nil, &got)
	if isFault(err, "RESOURCE_DOES_NOT_EXIST") {
		err = s.call(ctx, http.MethodPost, "experiments/create", map[string]any{"name": name}, &got)
		if isFault(err, "RESOURCE_ALREADY_EXISTS") { // another process
			err = s.call(ctx, http.MethodGet, get, nil, &got)
		}
	}
	if err == nil && got.Experiment.Stage == "deleted" {
		err = fmt.Errorf("MLflow: the experiment %q is deleted", name)
	}
	return cmp.Or(got.ID, got.Experiment.ID), err
}

// remoteRun is a run on the server.
type remoteRun struct {
	Info struct {
		ID       string `json:"run_id"`
		Artifact string `json:"artifact_uri"`
	} `json:"info"`
	Data struct {
		Metrics []remoteMetric `json:"metrics"`
		Params  []Param        `json:"params"`
	} `json:"data"`
	Inputs struct {
		Datasets []struct {
			Dataset struct {
				Name   string `json:"name"`
				Digest string `json:"digest"`
			} `json:"dataset"`
		} `json:"dataset_inputs"`
	} `json:"inputs"`
}

// remoteMetric is the last figure of a metric. A step is a number or a text.
type remoteMetric struct {
	Key  string          `json:"key"`
	Step json.RawMessage `json:"step"`
}

func (m remoteMetric) step() int64 {
	n, _ := strconv.ParseInt(strings.Trim(string(m.Step), `"`), 10, 64)
	return n
}

// runTag identifies the folder of a run.
const runTag = "mm.run"

// find returns the run of a folder, or nil.
func (s *Server) find(ctx context.Context, experiment string, r *Run) (*remoteRun, error) {
	var got struct {
		Runs []remoteRun `json:"runs"`
	}
	in := map[string]any{"experiment_ids": []string{experiment}, "filter": fmt.Sprintf("tags.`%s` = '%s'", runTag, r.ID), "max_results": 2}
	if err := s.call(ctx, http.MethodPost, "runs/search", in, &got); err != nil {
		return nil, err
	}
	switch len(got.Runs) {
	case 0:
		return nil, nil
	case 1:
		return &got.Runs[0], nil
	}
	return nil, fmt.Errorf("MLflow: got several runs with the tag %s %s, want one", runTag, r.ID)
}

func (s *Server) create(ctx context.Context, experiment string, r *Run, opt Options) (*remoteRun, error) {
	tags := []Param{{runTag, r.ID}, {"mlflow.source.name", "mm train"}, {"mlflow.source.type", "LOCAL"}, {"mm.version", opt.Version}, {"mm.kind", r.Kind}}
	if opt.User != "" {
		tags = append(tags, Param{"mlflow.user", opt.User})
	}
	var got struct {
		Run remoteRun `json:"run"`
	}
	err := s.call(ctx, http.MethodPost, "runs/create", map[string]any{"experiment_id": experiment, "run_name": r.Name, "start_time": r.Begin, "tags": tags}, &got)
	return &got.Run, err
}

// resumedTag begins the tag of a value that differs from the parameter of the run: a run
// may be resumed with another end, and MLflow refuses to change a parameter.
const resumedTag = "mm.resumed."

// params sends the parameters that the run lacks on the server, and the others that differ
// as tags.
func (s *Server) params(ctx context.Context, remote *remoteRun, list []Param) error {
	old := map[string]string{}
	for _, p := range remote.Data.Params {
		old[p.Key] = p.Value
	}
	var missing, changed []Param
	for _, p := range list {
		switch value, ok := old[p.Key]; {
		case !ok:
			missing = append(missing, p)
		case value != p.Value:
			changed = append(changed, Param{resumedTag + p.Key, p.Value})
		}
	}
	if err := s.values(ctx, remote.Info.ID, "params", missing); err != nil {
		return err
	}
	return s.values(ctx, remote.Info.ID, "tags", changed)
}

// values sends parameters or tags.
func (s *Server) values(ctx context.Context, id, field string, list []Param) error {
	for part := range slices.Chunk(list, maxParams) {
		if err := s.call(ctx, http.MethodPost, "runs/log-batch", map[string]any{"run_id": id, field: part}, nil); err != nil {
			return err
		}
	}
	return nil
}

// metrics sends at most maxBatch metrics.
func (s *Server) metrics(ctx context.Context, id string, list []Metric) error {
	out := make([]map[string]any, len(list))
	for i, m := range list {
		out[i] = map[string]any{"key": m.Key, "value": figure(m.Value), "step": m.Step, "timestamp": m.Time}
	}
	return s.call(ctx, http.MethodPost, "runs/log-batch", map[string]any{"run_id": id, "metrics": out}, nil)
}

// figure returns a number that JSON does not have as a text.
func figure(v float64) any {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "Infinity"
	case math.IsInf(v, -1):
		return "-Infinity"
	}
	return v
}

// datasetDigest is the length of digests that MLflow keeps.
const datasetDigest = 36

// datasets adds the data sets that the run lacks on the server.
func (s *Server) datasets(ctx context.Context, remote *remoteRun, list []train.Lineage) error {
	have := map[string]bool{}
	for _, d := range remote.Inputs.Datasets {
		have[d.Dataset.Name+" "+d.Dataset.Digest] = true
	}
	var inputs []any
	for _, l := range list {
		digest := strings.TrimPrefix(l.Digest, "sha256:")
		digest = digest[:min(len(digest), datasetDigest)]
		name := cmp.Or(l.Name, "data")
		if have[name+" "+digest] {
			continue
		}
		source, err := json.Marshal(map[string]string{"digest": l.Digest, "license": l.License})
		if err != nil {
			return err
		}
		inputs = append(inputs, map[string]any{
			"dataset": map[string]any{"name": name, "digest": digest, "source_type": "mm", "source": string(source)},
			"tags":    []Param{{"mlflow.data.context", "training"}},
		})
	}
	if len(inputs) == 0 {
		return nil
	}
	return s.call(ctx, http.MethodPost, "runs/log-inputs", map[string]any{"run_id": remote.Info.ID, "datasets": inputs}, nil)
}

// artifacts sends the log of the run through the server, if it stores artifacts itself.
func (s *Server) artifacts(ctx context.Context, remote *remoteRun, r *Run) error {
	where, ok := strings.CutPrefix(remote.Info.Artifact, "mlflow-artifacts:")
	if !ok {
		return nil
	}
	path := filepath.Join(r.Dir, train.MetricsFile)
	info, err := os.Stat(path)
	if err != nil || info.Size() > maxArtifact {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	where = strings.Trim(where, "/")
	_, err = s.do(ctx, http.MethodPut, s.base+"/api/2.0/mlflow-artifacts/artifacts/"+where+"/"+train.MetricsFile, "application/octet-stream", data)
	return err
}

func (s *Server) update(ctx context.Context, id, status string, end int64) error {
	in := map[string]any{"run_id": id, "status": status}
	if status != "RUNNING" {
		in["end_time"] = end
	}
	return s.call(ctx, http.MethodPost, "runs/update", in, nil)
}

// Registered is a version of a model in the registry.
type Registered struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Source  string `json:"source"`
	Before  bool   `json:"known"` // the server had it before
}

// Register adds a build at a registry as a version of a model: its source is
// oci://HOST/REPOSITORY@sha256:…. A source that the model has already is not added again.
// An alias, such as prod, then names the version.
func (s *Server) Register(ctx context.Context, model, source, run, alias string) (out *Registered, err error) {
	err = s.again(ctx, func() error {
		out, err = s.register(ctx, model, source, run, alias)
		return err
	})
	return out, err
}

func (s *Server) register(ctx context.Context, model, source, run, alias string) (*Registered, error) {
	err := s.call(ctx, http.MethodPost, "registered-models/create", map[string]any{"name": model}, nil)
	if err != nil && !isFault(err, "RESOURCE_ALREADY_EXISTS") {
		return nil, err
	}
	var got struct {
		Versions []modelVersion `json:"model_versions"`
		Next     string         `json:"next_page_token"`
		One      modelVersion   `json:"model_version"`
	}
	out := &Registered{Name: model, Source: source}
	for token := ""; ; token = got.Next {
		got.Versions, got.Next = nil, ""
		query := url.Values{"filter": {"name='" + strings.ReplaceAll(model, "'", "''") + "'"}, "max_results": {"200"}}
		if token != "" {
			query.Set("page_token", token)
		}
		if err := s.call(ctx, http.MethodGet, "model-versions/search?"+query.Encode(), nil, &got); err != nil {
			return nil, err
		}
		for _, v := range got.Versions {
			if v.Source == source {
				out.Version, out.Before = v.Version, true
			}
		}
		if got.Next == "" || got.Next == token || out.Before {
			break
		}
	}
	if !out.Before {
		in := map[string]any{"name": model, "source": source}
		if run != "" {
			in["run_id"] = run
		}
		if err := s.call(ctx, http.MethodPost, "model-versions/create", in, &got); err != nil {
			return nil, err
		}
		out.Version = got.One.Version
	}
	if alias == "" {
		return out, nil
	}
	return out, s.call(ctx, http.MethodPost, "registered-models/alias", map[string]any{"name": model, "alias": alias, "version": out.Version}, nil)
}

type modelVersion struct {
	Version string `json:"version"`
	Source  string `json:"source"`
}
