// Package libllama compares mm with llama.cpp: it runs llama.cpp's shared
// library in a process of its own and asks it for logits, quantised rows and
// timings. Only tests and benchmarks use it.
//
// [Start] builds the program in the folder driver, which loads the library
// through purego, and speaks with it over its standard input and output: one
// gob-encoded [Request], one [Reply]. The package itself loads nothing.
package libllama

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Request is what the driver is to do.
type Request struct {
	// Op is "load", "free", "clear", "adapter", "feed", "vectors", "prefill",
	// "decode", "loss", "quantize", "dequantize" or "convert".
	Op string

	Path    string               // load, adapter: a file
	Threads int                  // load
	Context int                  // load: positions; batches are as large
	KV      uint32               // load: GGML type of keys and values
	Scale   float32              // adapter
	Tokens  []int32              // feed: tokens; all logits are returned. loss: an empty context is filled with them
	Next    int32                // loss: the token that follows
	Out     string               // convert: the file to be written
	Pure    bool                 // convert: every matrix in the one type
	Means   map[string][]float32 // convert: the mean squares of the columns, by tensor
	Vectors []float32            // vectors: positions as vectors; the last one's logits are returned
	Count   int                  // prefill: how many tokens; decode: how many steps
	Type    uint32               // quantize, dequantize: GGML type. convert: llama_ftype
	Rows    []float32            // quantize: one row
	Blocks  []byte               // dequantize: one row
	Elems   int                  // dequantize: its elements
}

// Reply is what came of it.
type Reply struct {
	Err    string
	Logits [][]float32   // feed, vectors
	Wall   time.Duration // prefill, decode: elapsed
	CPU    time.Duration // prefill, decode: processor time of all threads
	Blocks []byte        // quantize
	Rows   []float32     // dequantize
	Loss   float64       // loss: the sum of -ln p of all tokens but the first, and of the next
}

// Client is a running driver.
type Client struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	enc *gob.Encoder
	dec *gob.Decoder
	dir string
}

// Start builds the driver and runs it on the libraries in dir. root is the
// repository's root. Close ends it.
func Start(root, dir string) (*Client, error) {
	tmp, err := os.MkdirTemp("", "libllama")
	if err != nil {
		return nil, err
	}
	c := &Client{dir: tmp}
	program := filepath.Join(tmp, "driver")
	if err := Build(root, program); err != nil {
		return nil, errors.Join(err, os.RemoveAll(tmp))
	}
	if err := c.start(program, dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(tmp))
	}
	return c, nil
}

// Build makes the driver.
func Build(root, program string) error {
	build := exec.Command("go", "build", "-o", program, "./tools/libllama/driver")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the driver: %w\n%s", err, out)
	}
	return nil
}

// Run runs a driver that was built, on the libraries in dir. Close ends it.
func Run(program, dir string) (*Client, error) {
	c := &Client{}
	return c, c.start(program, dir)
}

// start runs the driver.
func (c *Client) start(program, dir string) error {
	c.cmd = exec.Command(program, dir)
	c.cmd.Stderr = os.Stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	c.in, c.enc, c.dec = in, gob.NewEncoder(in), gob.NewDecoder(out)
	return c.cmd.Start()
}

// Do has a request carried out.
func (c *Client) Do(r Request) (Reply, error) {
	if err := c.enc.Encode(r); err != nil {
		return Reply{}, err
	}
	var reply Reply
	if err := c.dec.Decode(&reply); err != nil {
		return Reply{}, fmt.Errorf("%s: the driver ended: %w", r.Op, err)
	}
	if reply.Err != "" {
		return Reply{}, fmt.Errorf("%s: %s", r.Op, reply.Err)
	}
	return reply, nil
}

// Pid is the driver's process.
func (c *Client) Pid() int { return c.cmd.Process.Pid }

// Close ends the driver.
func (c *Client) Close() error {
	err := errors.Join(c.in.Close(), c.cmd.Wait())
	if c.dir == "" { // the driver is another's
		return err
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// CPU is the processor time that the driver used, known after Close.
func (c *Client) CPU() time.Duration {
	return c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime()
}
