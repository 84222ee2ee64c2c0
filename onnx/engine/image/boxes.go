package image

import (
	"fmt"
	"slices"

	"mm-abi.org/mm/onnx"
	"mm-abi.org/mm/onnx/engine/kernel"
)

// suppress computes NonMaxSuppression: boxes in the order of their scores,
// without those that overlap a selected one.
func suppress(c *kernel.Call) error {
	in, err := c.Floats(0, 1)
	if err != nil {
		return err
	}
	boxes, scores := c.In[0], c.In[1]
	if boxes.Rank() != 3 || boxes.Shape[2] != 4 || scores.Rank() != 3 || scores.Shape[0] != boxes.Shape[0] || scores.Shape[2] != boxes.Shape[1] {
		return fmt.Errorf("shape mismatch: boxes %v and scores %v", boxes.Shape, scores.Shape)
	}
	most, overlap, least := 0, float32(0), float32(0)
	if list, err := c.Integers(2); err != nil {
		return err
	} else if len(list) > 0 {
		most = list[0]
	}
	limits, err := c.Floats(3, 4)
	if err != nil {
		return err
	}
	if len(limits[0]) > 0 {
		overlap = limits[0][0]
	}
	if len(limits[1]) > 0 {
		least = limits[1][0]
	}
	n, centered := boxes.Shape[1], c.Int("center_point_box", 0) != 0
	var found []int64
	for i := range scores.Shape[0] * scores.Shape[1] {
		b, row := i/scores.Shape[1], in[1][i*n:(i+1)*n]
		var order, kept []int
		for k, s := range row {
			if len(limits[1]) == 0 || s > least {
				order = append(order, k)
			}
		}
		slices.SortStableFunc(order, func(p, q int) int {
			switch {
			case row[p] > row[q]:
				return -1
			case row[p] < row[q]:
				return 1
			}
			return 0
		})
		for _, k := range order {
			if len(kept) >= most {
				break
			}
			box := in[0][(b*n+k)*4:]
			if !slices.ContainsFunc(kept, func(o int) bool { return common(box, in[0][(b*n+o)*4:], centered) > overlap }) {
				kept = append(kept, k)
				found = append(found, int64(b), int64(i%scores.Shape[1]), int64(k))
			}
		}
	}
	out, err := c.Result(0, onnx.INT64, len(found)/3, 3)
	if err == nil {
		copy(kernel.Elements[int64](out), found)
	}
	return err
}

// common returns the intersection over union of two boxes.
func common(a, b []float32, centered bool) float32 {
	edges := func(v []float32) (y0, x0, y1, x1 float32) {
		if centered {
			return v[1] - v[3]/2, v[0] - v[2]/2, v[1] + v[3]/2, v[0] + v[2]/2
		}
		return min(v[0], v[2]), min(v[1], v[3]), max(v[0], v[2]), max(v[1], v[3])
	}
	ay0, ax0, ay1, ax1 := edges(a)
	by0, bx0, by1, bx1 := edges(b)
	shared := max(0, min(ay1, by1)-max(ay0, by0)) * max(0, min(ax1, bx1)-max(ax0, bx0))
	all := (ay1-ay0)*(ax1-ax0) + (by1-by0)*(bx1-bx0) - shared
	if all <= 0 {
		return 0
	}
	return shared / all
}
