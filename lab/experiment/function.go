package experiment

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// The limits of the built-in functions.
const (
	maxSize    = 1024 // of the matrices of product
	maxSeconds = 3600 // of sleep
)

// Functions returns the built-in functions: product multiplies two size × size matrices of
// float32 and returns the same bytes every time; sleep waits for seconds and returns
// nothing.
func Functions() map[string]Function {
	return map[string]Function{"product": product, "sleep": sleep}
}

func product(_ context.Context, with map[string]float64) (func(context.Context) ([]byte, error), error) {
	size := int(with["size"])
	if float64(size) != with["size"] || size < 1 || size > maxSize {
		return nil, fmt.Errorf("product: size: got %v, want an integer from 1 to %d", with["size"], maxSize)
	}
	a, b, c := make([]float32, size*size), make([]float32, size*size), make([]float32, size*size)
	for i := range a {
		a[i], b[i] = float32(i%7)-3, float32(i%5)-2
	}
	return func(ctx context.Context) ([]byte, error) {
		clear(c)
		for i := range size {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			row := c[i*size : (i+1)*size]
			for k := range size {
				x := a[i*size+k]
				for j, y := range b[k*size : (k+1)*size] {
					row[j] += x * y
				}
			}
		}
		out := make([]byte, 0, 4*len(c))
		for _, v := range c {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
		}
		return out, nil
	}, nil
}

func sleep(_ context.Context, with map[string]float64) (func(context.Context) ([]byte, error), error) {
	d := time.Duration(with["seconds"] * float64(time.Second))
	if d < 0 || with["seconds"] > maxSeconds {
		return nil, fmt.Errorf("sleep: seconds: got %v, want 0 to %d", with["seconds"], maxSeconds)
	}
	return func(ctx context.Context) ([]byte, error) { return nil, wall{}.Sleep(ctx, d) }, nil
}
