package qnn

import (
	"encoding/binary"
	"math"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/runtimes"
	"mm-abi.org/mm/runtimes/qnn/ask"
)

// Through converts numbers to a graph's tensor, whose port is declared as outer, and back.
func Through(t htp.Tensor, outer runtimes.Elem, v []float32) (inner []byte, back []float32, err error) {
	p, err := portOf(t)
	if err == nil {
		err = p.declare(abi.Port{Name: t.Name, DType: abi.DType(outer)})
	}
	if err != nil || v == nil {
		return nil, nil, err
	}
	x := runtimes.Tensor{Type: runtimes.Float32, Shape: p.shape}
	for _, f := range v {
		x.Data = binary.LittleEndian.AppendUint32(x.Data, math.Float32bits(f))
	}
	if err := p.fit(x); err != nil {
		return nil, nil, err
	}
	in, err := p.enter(x)
	if err != nil {
		return nil, nil, err
	}
	out := p.leave(in)
	for i := range len(out.Data) / 4 {
		back = append(back, float(out.Data, i))
	}
	return in.Data, back, nil
}

// Long converts numbers of 64 bits to a graph's tensor of 32.
func Long(t htp.Tensor, data []byte) error {
	p, err := portOf(t)
	if err == nil {
		err = p.declare(abi.Port{DType: abi.DType(runtimes.Int64)})
	}
	if err == nil {
		_, err = p.enter(runtimes.Tensor{Type: runtimes.Int64, Shape: p.shape, Data: data})
	}
	return err
}

// WireTensors converts tensors for mm-native.
func WireTensors(list []htp.Tensor) []ask.Tensor { return wireTensors(list) }
