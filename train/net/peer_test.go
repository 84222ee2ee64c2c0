package net_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mm-abi.org/mm/core/npy"
	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train/net"
	"mm-abi.org/mm/train/nn"
	"mm-abi.org/mm/train/optim"
)

// peerVar makes the test binary train in the words of scripts/bench-net.py.
const peerVar = "MM_TEST_NET_PEER" // peerVar makes the test binary run the protocol of scripts/bench-net.py.

func TestMain(m *testing.M) {
	if os.Getenv(peerVar) == "" {
		os.Exit(m.Run())
	}
	if err := peer(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// peer answers "make CASE BATCH THREADS DIR", which draws a network and its
// data and writes both to DIR, and "train N", which runs N steps and prints the
// mean loss of each.
func peer(r io.Reader, w io.Writer) error {
	var c *trained
	for lines := bufio.NewScanner(r); lines.Scan(); {
		f := strings.Fields(lines.Text())
		n, err := strconv.Atoi(f[min(2, len(f)-1)])
		if err != nil {
			return err
		}
		answer := "ok"
		if f[0] == "make" {
			threads, err := strconv.Atoi(f[3])
			if err != nil {
				return err
			}
			if c, err = newTrained(f[1], n, threads); err == nil {
				err = c.write(f[4])
			}
			if err != nil {
				return err
			}
		} else {
			var all []string
			for range n {
				all = append(all, fmt.Sprint(c.step()))
			}
			answer = strings.Join(all, " ")
		}
		if _, err := fmt.Fprintln(w, answer); err != nil {
			return err
		}
	}
	return nil
}

// trained is a network that memorizes one batch.
type trained struct {
	net     *net.Net[float32]
	pass    *net.Pass[float32]
	batch   int
	targets []int32            // of an encoder
	target  nn.Matrix[float32] // of a decoder
	move    *optim.AdamW
}

func newTrained(name string, batch, threads int) (*trained, error) {
	cfg, ok := map[string]net.Config{"vit8": vit(8), "vit16": vit(16), "dit": dit(), "cnn": cnn()}[name]
	if !ok {
		return nil, fmt.Errorf("unknown network %q", name)
	}
	n, err := net.New[float32](cfg)
	if err != nil {
		return nil, err
	}
	n.Init(1)
	p, r := pool.New(threads), nn.NewRandom(2)
	c := &trained{net: n, pass: n.NewPass(p, batch), batch: batch}
	for _, in := range cfg.Inputs {
		x := c.pass.In(in.Name)
		for t := range x.Rows {
			nn.FillNormal(x.Row(t), r, 1)
		}
	}
	out := c.pass.Out(cfg.Outputs[0])
	c.target = nn.NewMatrix[float32](out.Rows, out.Cols)
	for t := range out.Rows {
		c.targets = append(c.targets, int32(r.Uniform()*float64(out.Cols)))
		nn.FillNormal(c.target.Row(t), r, 1)
	}
	var params []optim.Param
	for _, w := range n.Params().Tensors() {
		params = append(params, optim.Param{Name: w.Name, Shape: w.Shape, Data: w.Data, Grad: w.Grad, Rate: 1})
	}
	c.move = optim.NewAdamW(params, optim.AdamWOptions{}, p)
	return c, nil
}

// step trains once and returns the mean loss before it.
func (c *trained) step() float64 {
	name := c.net.Config().Outputs[0]
	c.pass.Forward(c.batch)
	y, dy := c.pass.Out(name), c.pass.OutGrad(name)
	var sum, n float64
	if name == "class" {
		n = float64(y.Rows)
		sum = net.CrossEntropy(y, dy, c.targets, float32(1/n))
	} else {
		n = float64(y.Rows * y.Cols)
		sum = net.Regression(net.L2, y, c.target, dy, float32(1/n))
	}
	c.pass.Backward(c.batch, false)
	c.move.Step(3e-4, 1)
	c.net.Pack(false)
	return sum / n
}

// write writes weights and data for PyTorch.
func (c *trained) write(dir string) error {
	put := func(name string, data []float32, shape ...int) error {
		raw := make([]byte, 0, 4*len(data))
		for _, v := range data {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
		}
		file, err := npy.Encode(&npy.Array{Type: "f4", Shape: shape, Data: raw})
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name+".npy"), file, 0o600)
	}
	rows := func(name string, m nn.Matrix[float32]) error {
		var all []float32
		for t := range m.Rows {
			all = append(all, m.Row(t)...)
		}
		return put(name, all, c.batch, m.Rows/c.batch, m.Cols)
	}
	for _, w := range c.net.Params().Tensors() {
		if err := put(w.Name, w.Data, w.Shape...); err != nil {
			return err
		}
	}
	for _, in := range c.net.Config().Inputs {
		if err := rows("data."+in.Name, c.pass.In(in.Name)); err != nil {
			return err
		}
	}
	var classes []float32
	for _, t := range c.targets {
		classes = append(classes, float32(t))
	}
	if err := put("targets", classes, len(classes)); err != nil {
		return err
	}
	return rows("wanted", c.target)
}

// The program that scripts/bench-net.sh runs learns and follows the protocol.
func TestPeer(t *testing.T) {
	var out strings.Builder
	dir := t.TempDir()
	if err := peer(strings.NewReader("make vit16 1 1 "+dir+"\ntrain 2\n"), &out); err != nil {
		t.Fatal(err)
	}
	var first, second float64
	if _, err := fmt.Sscanf(out.String(), "ok\n%g %g\n", &first, &second); err != nil || !(second < first) {
		t.Errorf("losses %q: %v", out.String(), err)
	}
	if _, err := os.Stat(filepath.Join(dir, "block2.attention.qkv.weight.npy")); err != nil {
		t.Error(err)
	}
}
