package modules_test

import (
	"fmt"
	"strings"
	"testing"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
)

// Invalid values of standard figures are reported; a module
// that defines them itself may use any value.
func TestFigures(t *testing.T) {
	const encoder = "name: m\nversion: 1.0.0\ntype: encoder\nmodality: audio\nabi: mm-abi-1.0\nlicense: MIT\ninputs: [{name: x, shape: [S], dtype: fp32}]\noutputs: [{name: y, shape: [T], dtype: fp32}]\n"
	const projector = "name: m\nversion: 1.0.0\ntype: projector\nmodality: image\nabi: mm-abi-1.0\nlicense: MIT\ninputs: [{name: x, shape: [T, D], dtype: fp32}]\noutputs: [{name: y, shape: [T_cap, d_model], dtype: fp32}]\n"
	const decoder = "name: m\nversion: 1.0.0\ntype: decoder\nmodality: image\nabi: mm-abi-1.0\nlicense: MIT\ninputs: [{name: x, shape: [T_dec, d_model], dtype: fp32}]\n"
	for text, want := range map[string]string{
		encoder + "caps: {window_ms: 5000}":                                  "",
		encoder + "caps: {window_ms: 0}":                                     "window_ms is 0",
		encoder + "caps: {window_ms: 1.5}":                                   "window_ms is 1.5",
		encoder + "caps: {window_ms: long}":                                  "window_ms is long",
		fmt.Sprintf("%scaps: {window_ms: %d}", encoder, modules.MaxWindow):   "",
		fmt.Sprintf("%scaps: {window_ms: %d}", encoder, modules.MaxWindow+1): "window_ms is 3.600001e+06",
		encoder + "params: {temporal: never, T_dec: none, range: all}":       "",
		projector + "params: {d_model: 4, T_cap: 2, temporal: mean}":         "",
		projector + "params: {d_model: 4, T_cap: 2, temporal: concat}":       "",
		projector + "params: {d_model: 4, T_cap: 2, temporal: halves}":       "",
		projector + "params: {d_model: 4, T_cap: 2, temporal: last}":         "temporal is last",
		projector + "params: {d_model: 4, T_cap: 2}\ncaps: {window_ms: -1}":  "",
		decoder + "params: {T_dec: 8, range: [-1, 1]}":                       "",
		decoder + "params: {range: [0, 1]}":                                  "",
		decoder + "params: {T_dec: 0}":                                       "T_dec is 0",
		decoder + "params: {range: [1, -1]}":                                 "range is [1 -1]",
		decoder + "params: {range: [1]}":                                     "range is [1]",
		decoder + "params: {range: bright}":                                  "range is bright",
	} {
		_, list := modules.Parse("module.yaml", []byte(text))
		err := list.Err()
		reported := err != nil && strings.Contains(err.Error(), want) && strings.Contains(err.Error(), string(diag.BadFigure))
		if want == "" && err != nil || want != "" && !reported {
			t.Errorf("%s: %v, want %q", text[strings.LastIndex(text, "\n")+1:], err, want)
		}
	}
}
