package experiment

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// maxSize bounds the matrices of product.
const maxSize = 1024

// Functions are what mm can do itself, as a load whose result is known: product
// multiplies two size × size matrices of float32 and gives the product's bytes,
// which are the same every time; sleep waits for seconds and gives nothing.
func Functions() map[string]Function {
	return map[string]Function{"product": product, "sleep": sleep}
}

func product(_ context.Context, with map[string]float64) (func(context.Context) ([]byte, error), error) {
	size := int(with["size"])
	if float64(size) != with["size"] || size < 1 || size > maxSize {
		return nil, fmt.Errorf("product: size is %v, wanted a whole number from 1 to %d", with["size"], maxSize)
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
	if d < 0 || with["seconds"] > 3600 {
		return nil, fmt.Errorf("sleep: seconds is %v, wanted 0 to 3600", with["seconds"])
	}
	return func(ctx context.Context) ([]byte, error) { return nil, wall{}.Sleep(ctx, d) }, nil
}
