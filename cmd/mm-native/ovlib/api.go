package ovlib

import (
	"errors"
	"fmt"
	"regexp"

	"mm-abi.org/mm/cmd/mm-native/dynlib"
	"mm-abi.org/mm/runtimes"
)

// api are the functions of OpenVINO's C interface in use (openvino/c/*.h). A shape
// is passed by value, as its rank and a pointer to its dimensions.
type api struct {
	version     func(out *[2]uintptr) int32
	versionFree func(v *[2]uintptr)
	lastError   func() uintptr
	free        func(text uintptr)

	coreCreate func(out *uintptr) int32
	readModel  func(core uintptr, xml, bin string, out *uintptr) int32
	modelFree  func(model uintptr)
	compile    func(core, model uintptr, device string, n uintptr, properties *property, out *uintptr) int32

	inputs, outputs func(compiled uintptr, n *uintptr) int32
	input, output   func(compiled, i uintptr, port *uintptr) int32
	compiledFree    func(compiled uintptr)

	portName  func(port uintptr, name *uintptr) int32
	portShape func(port uintptr, s *shape) int32
	portType  func(port uintptr, t *int32) int32
	portFree  func(port uintptr)

	request     func(compiled uintptr, out *uintptr) int32
	setInput    func(request, i, tensor uintptr) int32
	result      func(request, i uintptr, tensor *uintptr) int32
	start       func(request uintptr) int32
	wait        func(request uintptr) int32
	cancel      func(request uintptr) int32
	requestFree func(request uintptr)

	tensor      func(t int32, rank uintptr, dims *int64, data *byte, out *uintptr) int32
	tensorShape func(tensor uintptr, s *shape) int32
	tensorType  func(tensor uintptr, t *int32) int32
	tensorData  func(tensor uintptr, data *uintptr) int32
	tensorFree  func(tensor uintptr)
	shapeFree   func(s *shape) int32
}

// property is a pair of C strings.
type property struct{ key, value *byte }

// shape is a shape in the library's memory.
type shape struct {
	rank int64
	dims uintptr
}

// elems are the element types by the library's numbers.
var elems = map[int32]runtimes.Elem{
	1: runtimes.Bool, 2: runtimes.BFloat16, 3: runtimes.Float16, 4: runtimes.Float32, 5: runtimes.Float64, 7: runtimes.Int8, 8: runtimes.Int16, 9: runtimes.Int32, 10: runtimes.Int64,
	16: runtimes.Uint8, 17: runtimes.Uint16, 18: runtimes.Uint32, 19: runtimes.Uint64,
}

// load loads the libraries of a folder in the order of their dependencies.
func load(dir string) (*api, error) {
	var lib *dynlib.Library
	for _, name := range []string{"libtbb.so.12", "libopenvino.so.*", "libopenvino_c.so.*"} {
		var err error
		if lib, err = dynlib.Open(dir, name); err != nil {
			return nil, err
		}
	}
	a := &api{}
	return a, lib.Bind(map[string]any{
		"ov_get_openvino_version": &a.version, "ov_version_free": &a.versionFree, "ov_get_last_err_msg": &a.lastError, "ov_free": &a.free,
		"ov_core_create": &a.coreCreate, "ov_core_read_model": &a.readModel, "ov_model_free": &a.modelFree, "ov_core_compile_model_props": &a.compile,
		"ov_compiled_model_inputs_size": &a.inputs, "ov_compiled_model_outputs_size": &a.outputs, "ov_compiled_model_input_by_index": &a.input,
		"ov_compiled_model_output_by_index": &a.output, "ov_compiled_model_free": &a.compiledFree,
		"ov_port_get_any_name": &a.portName, "ov_const_port_get_shape": &a.portShape, "ov_port_get_element_type": &a.portType, "ov_output_const_port_free": &a.portFree,
		"ov_compiled_model_create_infer_request": &a.request, "ov_infer_request_set_input_tensor_by_index": &a.setInput, "ov_infer_request_get_output_tensor_by_index": &a.result,
		"ov_infer_request_start_async": &a.start, "ov_infer_request_wait": &a.wait, "ov_infer_request_cancel": &a.cancel, "ov_infer_request_free": &a.requestFree,
		"ov_tensor_create_from_host_ptr": &a.tensor, "ov_tensor_get_shape": &a.tensorShape, "ov_tensor_get_element_type": &a.tensorType, "ov_tensor_data": &a.tensorData,
		"ov_tensor_free": &a.tensorFree, "ov_shape_free": &a.shapeFree,
	})
}

// check converts a status. The message is that of the last error in the process.
func (a *api) check(what string, status int32) error {
	if status == 0 {
		return nil
	}
	text := a.lastError()
	defer a.free(text)
	if s := dynlib.String(text); s != "" {
		return fmt.Errorf("OpenVINO: %s: %s", what, s)
	}
	return fmt.Errorf("OpenVINO: %s: status %d", what, status)
}

var buildNumber = regexp.MustCompile(`^\d{4}\.\d+\.\d+`)

// release returns the version of the library: 2026.4.1 of 2026.4.1-22982-….
func (a *api) release() (string, error) {
	var v [2]uintptr
	if err := a.check("reading the version", a.version(&v)); err != nil {
		return "", err
	}
	defer a.versionFree(&v)
	text := buildNumber.FindString(dynlib.String(v[0]))
	if text == "" {
		return "", errors.New("OpenVINO has no version")
	}
	return text, nil
}

// dims copies a shape of the library and frees it.
func (a *api) dims(s *shape) []int64 {
	defer a.shapeFree(s)
	out := make([]int64, s.rank)
	for i := range out {
		out[i] = *(*int64)(dynlib.Pointer(s.dims + 8*uintptr(i)))
	}
	return out
}
