// Package libllama compares mm with llama.cpp: it runs llama.cpp's shared library in a
// child process and requests logits, quantized rows and timings. Only tests and benchmarks
// use it.
//
// [Start] builds the program in the folder driver, which loads the library through purego,
// and communicates with it over standard input and output: one gob-encoded [Request], one
// [Reply].
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

// Request is a request to the driver.
type Request struct {
	// Op is "load", "free", "clear", "adapter", "feed", "vectors", "prefill",
	// "decode", "loss", "quantize", "dequantize" or "convert".
	Op string

	Path    string               // load, adapter: a file
	Threads int                  // load
	Context int                  // load: positions, also the batch size
	KV      uint32               // load: GGML type of keys and values
	Scale   float32              // adapter
	Tokens  []int32              // feed: all logits are returned. loss: tokens of an empty context
	Next    int32                // loss: the next token
	Out     string               // convert: output file
	Pure    bool                 // convert: all matrices have the same type
	Means   map[string][]float32 // convert: mean squares of the columns, by tensor
	Vectors []float32            // vectors: positions as vectors; the last logits are returned
	Count   int                  // prefill: number of tokens; decode: number of steps
	Type    uint32               // quantize, dequantize: GGML type. convert: llama_ftype
	Rows    []float32            // quantize: one row
	Blocks  []byte               // dequantize: one row
	Elems   int                  // dequantize: number of elements
}

// Reply is the driver's answer.
type Reply struct {
	Err    string
	Logits [][]float32   // feed, vectors
	Wall   time.Duration // prefill, decode: elapsed time
	CPU    time.Duration // prefill, decode: processor time of all threads
	Blocks []byte        // quantize
	Rows   []float32     // dequantize
	Loss   float64       // loss: sum of -ln p of all tokens except the first, and of the next token
}

// Client is a running driver.
type Client struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	enc *gob.Encoder
	dec *gob.Decoder
	dir string
}

// Start builds the driver in the repository root and runs it with the libraries in dir. The
// caller must call Close.
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

// Build builds the driver.
func Build(root, program string) error {
	build := exec.Command("go", "build", "-o", program, "./tools/libllama/driver")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the driver: %w\n%s", err, out)
	}
	return nil
}

// Run runs a built driver with the libraries in dir. The caller must call Close.
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

// Do executes a request.
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

// Close ends the driver.
func (c *Client) Close() error {
	err := errors.Join(c.in.Close(), c.cmd.Wait())
	if c.dir == "" { // not built by Start
		return err
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// Libraries returns the folder of llama.cpp's libraries in the folder that scripts/fetch-native.sh filled.
func Libraries(native string) string { return filepath.Join(native, "lib", "bins", "linux-x64") }

// SmolLM2 returns the model in the folder that scripts/fetch-native.sh filled.
func SmolLM2(native string) string {
	return filepath.Join(native, "models", "SmolLM2-135M-Instruct.Q4_1.gguf")
}

// CPU returns the processor time of the driver after Close.
func (c *Client) CPU() time.Duration {
	return c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime()
}
