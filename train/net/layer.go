package net

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"mm-abi.org/mm/train/nn"
)

// Layer is one layer of a description: its kind, its inputs, and the parameters
// of its kind, see kinds. Comments state the default of a zero field.
type Layer struct {
	Name   string   `json:"name,omitempty"`   // the kind and a number
	Kind   string   `json:"kind"`             //
	Inputs []string `json:"inputs,omitempty"` // ports or layers; the previous layer

	Memory    string `json:"memory,omitempty"`    // supplies keys and values
	Condition string `json:"condition,omitempty"` // one row that modulates a block (AdaLN)
	Residual  string `json:"residual,omitempty"`  // added to the output

	Out        int           `json:"out,omitempty"`        // output channels
	Kernel     Sizes         `json:"kernel,omitempty"`     // height and width of a window
	Stride     Sizes         `json:"stride,omitempty"`     // 1
	Pad        Sizes         `json:"pad,omitempty"`        // 0
	Groups     int           `json:"groups,omitempty"`     // 1
	Height     int           `json:"height,omitempty"`     // of the input image; its known height, otherwise the square root of the rows
	Heads      int           `json:"heads,omitempty"`      //
	Hidden     int           `json:"hidden,omitempty"`     // width inside a feed-forward network; 4 times its input
	Activation nn.Activation `json:"activation,omitempty"` // gelu
	Eps        float64       `json:"eps,omitempty"`        // of norms; 1e-5
	NoBias     bool          `json:"no_bias,omitempty"`    //
	NoAffine   bool          `json:"no_affine,omitempty"`  // layer norm without gain and bias
	Zero       bool          `json:"zero,omitempty"`       // weights start at zero
	Count      int           `json:"count,omitempty"`      // queries, or rows of an embedding
	Factor     int           `json:"factor,omitempty"`     // by which positions are multiplied or averaged
	Every      int           `json:"every,omitempty"`      // distance of the positions averaged together; 1
	Axis       string        `json:"axis,omitempty"`       // rows or cols; cols
	From       int           `json:"from,omitempty"`       // 0
	To         int           `json:"to,omitempty"`         // the end
	Rows       int           `json:"rows,omitempty"`       //
	Cols       int           `json:"cols,omitempty"`       //
	Period     float64       `json:"period,omitempty"`     // longest period of a time embedding; 10000
	Scale      float64       `json:"scale,omitempty"`      // 1; for a time embedding 1000
	Offset     float64       `json:"offset,omitempty"`     // 0
}

// Sizes is a height and a width, or one number for both.
type Sizes []int

// UnmarshalJSON decodes a number or a list of one or two.
func (s *Sizes) UnmarshalJSON(data []byte) error {
	var one int
	if json.Unmarshal(data, &one) == nil {
		*s = Sizes{one}
		return nil
	}
	var list []int
	if err := json.Unmarshal(data, &list); err != nil || len(list) < 1 || len(list) > 2 {
		return fmt.Errorf("%s is not a number or a list of one or two", data)
	}
	*s = list
	return nil
}

// both returns the height and the width, or twice the default.
func (s Sizes) both(def int) (h, w int) {
	switch len(s) {
	case 0:
		return def, def
	case 1:
		return s[0], s[0]
	}
	return s[0], s[1]
}

// fields returns the parameters of a layer that are set, by name.
func (l *Layer) fields() map[string]reflect.Value {
	set := map[string]reflect.Value{}
	v := reflect.ValueOf(l).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "name" || name == "kind" || name == "inputs" || v.Field(i).IsZero() {
			continue
		}
		set[name] = v.Field(i)
	}
	return set
}

// Step is a layer to compute: not a composite, with resolved inputs, defaults
// filled in and known shapes.
type Step struct {
	Layer
	Takes []Port // Inputs, then Memory and Residual if set
	Gives Port   // under the step's name

	ordinal int // among the layers of the description
}
