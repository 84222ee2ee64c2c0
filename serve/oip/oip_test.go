package oip

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/core/tokenizer"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/modality"
	"mm-abi.org/mm/runtimes/part"
	"mm-abi.org/mm/runtimes/runner"
	"mm-abi.org/mm/serve/api"
)

// build computes its inputs: the function echo returns them.
type build struct {
	asked []part.Argument
	api.Scorer
}

func (*build) Answer(context.Context, runner.Request, func(string) error) (*runner.Answer, error) {
	return nil, errors.New("not a language model")
}
func (*build) Load(context.Context) error { return nil }
func (*build) Tokenizer(context.Context) (*tokenizer.Tokenizer, error) {
	return nil, errors.New("none")
}
func (*build) Build() *builds.Build {
	ports := []abi.Port{{Name: "x", Shape: abi.Shape{{Name: "T"}, {Size: 2}}, DType: "fp16"}}
	return &builds.Build{
		Assembly:  &builds.Assembly{Name: "fns", Version: "1.0.0"},
		Manifests: map[string]*modules.Manifest{"echo": {Type: abi.Encoder, Tensors: modules.Tensors{Inputs: ports, Outputs: ports}}, "core": {Type: abi.Core}},
	}
}

func (b *build) Compute(_ context.Context, args []part.Argument) ([]part.Computed, error) {
	b.asked = args
	out := map[string]runtimes.Tensor{}
	for _, a := range args {
		if a.Name == "echo.none" {
			return nil, &modality.InputError{Name: a.Name, Detail: "no such input"}
		}
		out[strings.TrimPrefix(a.Name, "echo.")] = *a.Tensor
	}
	return []part.Computed{{Part: builds.Part{Name: "echo"}, Result: &modality.Result{Outputs: out}}}, nil
}

// ask sends a request and returns the status and the body.
func ask(t *testing.T, b *build, method, path, body string, header ...string) (int, string) {
	t.Helper()
	s, err := api.New(api.Options{Version: "9", Models: []api.Model{{Names: []string{"fns"}, Answerer: b}}})
	if err != nil {
		t.Fatal(err)
	}
	Mount(s)
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, strings.TrimSpace(w.Body.String())
}

func TestMetadata(t *testing.T) {
	for path, want := range map[string]string{
		"/v2":                           `{"extensions":[],"name":"mm","version":"9"}`,
		"/v2/health/live":               `{"live":true}`,
		"/v2/models/fns":                `{"inputs":[{"name":"echo.x","datatype":"FP16","shape":[-1,2]}],"name":"fns","outputs":[{"name":"echo.x","datatype":"FP16","shape":[-1,2]}],"platform":"mm","versions":["1.0.0"]}`,
		"/v2/models/fns/versions/1.0.0": `"versions":["1.0.0"]`,
		"/v2/models/fns/ready":          `{"name":"fns","ready":true}`,
		"/v2/models/fns/versions/2":     "unknown version",
		"/v2/models/none":               "unknown model",
		"/v2/health/ready":              "models are loading",
	} {
		if _, got := ask(t, &build{}, "GET", path, ""); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

// Tensors of every type come back as they were sent.
func TestInfer(t *testing.T) {
	for _, c := range []struct{ datatype, data, want string }{
		{"FP32", "[1.5, -2, 3, 4]", "[1.5,-2,3,4]"}, {"FP16", "[[1.5, -2], [3, 4]]", "[1.5,-2,3,4]"}, {"BF16", "[1.5, -2, 3, 4]", "[1.5,-2,3,4]"}, {"FP64", "[1e-9, -2, 3, 4]", "[1e-9,-2,3,4]"},
		{"INT8", "[-128, 127, 0, -1]", "[-128,127,0,-1]"}, {"INT16", "[-32768, 1, 2, 3]", "[-32768,1,2,3]"}, {"INT32", "[-2147483648, 1, 2, 3]", "[-2147483648,1,2,3]"}, {"INT64", "[-9223372036854775808, 1, 2, 3]", "[-9223372036854775808,1,2,3]"},
		{"UINT8", "[255, 1, 2, 3]", "[255,1,2,3]"}, {"UINT16", "[65535, 1, 2, 3]", "[65535,1,2,3]"}, {"UINT32", "[4294967295, 1, 2, 3]", "[4294967295,1,2,3]"}, {"UINT64", "[18446744073709551615, 1, 2, 3]", "[18446744073709551615,1,2,3]"},
		{"BOOL", "[true, false, 1, 0]", "[true,false,true,false]"},
	} {
		body := fmt.Sprintf(`{"id":"a","inputs":[{"name":"echo.x","datatype":%q,"shape":[2,2],"data":%s}]}`, c.datatype, c.data)
		want := fmt.Sprintf(`{"model_name":"fns","model_version":"1.0.0","id":"a","outputs":[{"name":"echo.x","datatype":%q,"shape":[2,2],"data":%s}]}`, c.datatype, c.want)
		if status, got := ask(t, &build{}, "POST", "/v2/models/fns/versions/1.0.0/infer", body); status != 200 || got != want {
			t.Errorf("%s: %d %s, want %s", c.datatype, status, got, want)
		}
	}
}

func TestRefused(t *testing.T) {
	in := func(s string) string { return `{"inputs":[` + s + `]}` }
	x := func(shape, datatype, data string) string {
		return in(fmt.Sprintf(`{"name":"echo.x","shape":%s,"datatype":%q,"data":%s}`, shape, datatype, data))
	}
	dims := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }
	for body, want := range map[string]string{
		in(""):                                                 "want at least one",
		x("[2]", "FP32", "[1]"):                                "got 1 or more numbers, want 2",
		x("[1]", "FP32", "[1,2,3]"):                            "got 2 or more numbers, want 1",
		x("[1]", "FP32", `["a"]`):                              "got a, want numbers",
		x("[1]", "FP32", `{"a":1}`):                            "got an object",
		x("[1]", "FP32", "[null]"):                             "want numbers",
		x("[1]", "BYTES", `["a"]`):                             "inputs[0].datatype",
		x("[1]", "INT8", "[128]"):                              "out of range of int8",
		x("[1]", "UINT8", "[-1]"):                              "out of range of uint8",
		x("[1]", "UINT8", "[1.5]"):                             "out of range of uint8",
		x("[1]", "BOOL", "[2]"):                                "out of range of bool",
		x("[-1]", "FP32", "[1]"):                               "inputs[0].shape",
		x(fmt.Sprintf("[%d]", maxElements+1), "FP32", "[1]"):   "limit",
		x(fmt.Sprintf("[%d,%d]", 1<<40, 1<<40), "FP32", "[1]"): "limit",
		x(dims(maxRank+1), "FP32", "[1]"):                      "dimensions, limit",
		in(`{"name":"echo.none","shape":[1],"datatype":"FP32","data":[1]}`):                  "no such input",
		in(`{"shape":[1],"datatype":"FP32","data":[1]}`):                                     "name: missing",
		strings.TrimSuffix(x("[1]", "FP32", "[1]"), "}") + `,"outputs":[{"name":"echo.y"}]}`: `no function that ran has \"echo.y\"`,
		"{": "",
	} {
		if status, got := ask(t, &build{}, "POST", "/v2/models/fns/infer", body); status != 400 || !strings.Contains(got, want) || !strings.HasPrefix(got, `{"error":`) {
			t.Errorf("%.100s: %d %s, want %s", body, status, got, want)
		}
	}
	if status, got := ask(t, &build{}, "POST", "/v2/models/fns/infer", x(dims(maxRank), "FP32", "[1]")); status != 200 {
		t.Errorf("a tensor of %d dimensions: %d %s", maxRank, status, got)
	}
	if err := fits([]int64{maxElements}); err != nil {
		t.Errorf("a tensor of %d elements: %v", maxElements, err)
	}
	if status, got := ask(t, &build{}, "POST", "/v2/models/fns/infer", x("[1]", "FP32", "[1]"), "Inference-Header-Content-Length", "10"); status != 400 || !strings.Contains(got, "binary tensor extension") {
		t.Errorf("binary: %d %s", status, got)
	}
}

// FuzzInfer sends any body: an answer or an error of the client, never a panic.
func FuzzInfer(f *testing.F) {
	f.Add(`{"inputs":[{"name":"echo.x","shape":[2,2],"datatype":"FP16","data":[[1,2],[3,4]]}],"outputs":[{"name":"x"}]}`)
	f.Add(`{"inputs":[{"name":"x","shape":[],"datatype":"INT64","data":7}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		var q request
		if json.Unmarshal([]byte(body), &q) != nil {
			return
		}
		args, err := q.arguments()
		if err != nil {
			return
		}
		results, err := (&build{}).Compute(t.Context(), args)
		if err == nil {
			_, _ = q.answer(results)
		}
	})
}
