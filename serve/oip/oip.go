// Package oip adds the Open Inference Protocol, version 2, to a server: the functions
// of a build (encoders, projectors, decoders) compute tensors that a client sends.
// Clients of KServe and Triton use it. Tensors are JSON; the binary extension is
// refused.
//
// An input is named PART.PORT, or PORT if only one part has it, as mm run --input
// names it. A tensor enters a function as it is: images and sounds are preprocessed by
// the client, or sent to /infer. The results of an encoder pass its projector, and
// both are answered. Shapes of the metadata are those of the manifest; a dimension of 1
// in front is that of the batch.
package oip

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/onnx/engine"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/serve/api"
)

// Mount adds the routes of the package to a server.
func Mount(s *api.Server) {
	s.Shape("/v2", func(e *api.Error) any { return map[string]string{"error": e.Message} })
	for pattern, serve := range map[string]func(*api.Call) error{
		"/v2": server, "/v2/health/live": live, "/v2/health/ready": ready,
		"/v2/models/{name}": metadata, "/v2/models/{name}/versions/{version}": metadata,
		"/v2/models/{name}/ready": modelReady, "/v2/models/{name}/versions/{version}/ready": modelReady,
	} {
		s.Handle(api.Route{Method: http.MethodGet, Pattern: pattern, Serve: serve})
	}
	for _, pattern := range []string{"/v2/models/{name}/infer", "/v2/models/{name}/versions/{version}/infer"} {
		s.Handle(api.Route{Method: http.MethodPost, Pattern: pattern, Serve: infer, AnyType: true})
	}
}

func server(c *api.Call) error {
	return c.Reply(map[string]any{"name": "mm", "version": c.Server().Version(), "extensions": []string{}})
}

func live(c *api.Call) error { return c.Reply(map[string]bool{"live": true}) }

func ready(c *api.Call) error {
	if !c.Server().Ready() {
		return &api.Error{Status: http.StatusServiceUnavailable, Message: "models are loading"}
	}
	return c.Reply(map[string]bool{"ready": true})
}

// model returns the model of the path and checks the version, if the path has one.
func model(c *api.Call) (*api.Model, *builds.Build, error) {
	m, err := c.Server().Model(c.R.PathValue("name"))
	if err != nil {
		return nil, nil, err
	}
	b := m.Answerer.Build()
	if v := c.R.PathValue("version"); v != "" && v != b.Assembly.Version {
		return nil, nil, &api.Error{Status: http.StatusNotFound, Kind: api.InvalidRequest, Message: "unknown version of the model: the server has " + b.Assembly.Version}
	}
	return m, b, nil
}

func modelReady(c *api.Call) error {
	m, _, err := model(c)
	if err != nil {
		return err
	}
	return c.Reply(map[string]any{"name": m.Name(), "ready": true})
}

// tensor describes an input or an output.
type tensor struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"` // -1: any size
}

// metadata answers the ports of the functions of a build.
func metadata(c *api.Call) error {
	m, b, err := model(c)
	if err != nil {
		return err
	}
	inputs, outputs := []tensor{}, []tensor{}
	for _, name := range functions(b) {
		man := b.Manifests[name]
		for _, p := range man.Inputs {
			inputs = append(inputs, port(name, p))
		}
		for _, p := range man.Outputs {
			outputs = append(outputs, port(name, p))
		}
	}
	return c.Reply(map[string]any{"name": m.Name(), "versions": []string{b.Assembly.Version}, "platform": "mm", "inputs": inputs, "outputs": outputs})
}

// functions returns the names of the parts that compute tensors.
func functions(b *builds.Build) []string {
	var names []string
	for name, m := range b.Manifests {
		if m.Type == abi.Encoder || m.Type == abi.Projector || m.Type == abi.Decoder {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// port describes a port of a part.
func port(part string, p abi.Port) tensor {
	t := tensor{Name: part + "." + p.Name, Datatype: datatypes[runtimes.Elem(p.DType)], Shape: []int64{}}
	for _, d := range p.Shape {
		n := int64(-1)
		if d.Name == "" {
			n = d.Size
		}
		t.Shape = append(t.Shape, n)
	}
	return t
}

// computer is a model with functions; runner.Runner implements it.
type computer interface {
	Compute(ctx context.Context, args []part.Argument) ([]part.Computed, error)
}

func infer(c *api.Call) error {
	if c.R.Header.Get("Inference-Header-Content-Length") != "" {
		return api.Unsupported("", "the binary tensor extension is not supported: send data as JSON")
	}
	m, b, err := model(c)
	if err != nil {
		return err
	}
	var q request
	if err := c.Read(&q); err != nil {
		return err
	}
	args, err := q.arguments()
	if err != nil {
		return err
	}
	var results []part.Computed
	err = c.Borrow(&api.Ask{Model: m}, func(ctx context.Context, s api.Scorer) error {
		f, ok := s.(computer)
		if !ok {
			return &runtimes.Unavailable{What: "computation of tensors", Why: "the model has no functions"}
		}
		var named *modality.InputError
		var shaped *engine.InputError
		if results, err = f.Compute(ctx, args); errors.As(err, &named) || errors.As(err, &shaped) {
			return api.Invalid("inputs", "%v", err)
		}
		return err
	})
	if err != nil {
		return err
	}
	out, err := q.answer(results)
	if err != nil {
		return err
	}
	out.Model, out.Version, out.ID = m.Name(), b.Assembly.Version, q.ID
	return c.Reply(out)
}
