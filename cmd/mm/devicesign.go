package main

import (
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/internal/audit"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/device"
	"mm-abi.org/mm/lab/device/evidence"
	"mm-abi.org/mm/workspace"
)

// evidenceName is the repository of device records in a trust file.
const evidenceName = "device/evidence"

// vouching returns the keys that may sign device records.
func vouching(w *workspace.Workspace, files []string) ([]evidence.Verifier, error) {
	keys, err := w.Vouching(evidenceName, files, time.Now())
	var out []evidence.Verifier
	for _, k := range keys {
		out = append(out, k)
	}
	return out, err
}

// recordSigned is the output of mm device sign and verify.
type recordSigned struct {
	File   string `json:"file"`
	Digest string `json:"digest"`
	Key    string `json:"key"`
}

func (p *program) deviceSign(c *cli.Context, w *workspace.Workspace) error {
	path := c.Args().First()
	r, err := device.ReadRecord(path)
	if err != nil {
		return err
	}
	s, err := w.Signer(c.String("key"), p.password)
	if err != nil {
		return err
	}
	if err := r.Sign(s.Key, s.Key.Public().KeyID()); err != nil {
		return err
	}
	err = fsx.Replace(path, 0o644, func(f io.Writer) error { return evidence.Write(f, r) })
	w.Record(c.Context, audit.Entry{Action: "device sign", Ref: path, Digest: r.Digest, Result: workspace.Outcome(err)})
	return p.printSigned("signed", recordSigned{path, r.Digest, r.Signature.Key}, err)
}

func (p *program) deviceVerify(c *cli.Context, w *workspace.Workspace) error {
	path := c.Args().First()
	r, err := device.ReadRecord(path)
	if err != nil {
		return err
	}
	trusted, err := vouching(w, c.StringSlice("key"))
	if err != nil {
		return err
	}
	id, err := r.SignedBy(trusted)
	if err != nil {
		err = device.RecordFault(path, err)
	}
	return p.printSigned("verified", recordSigned{path, r.Digest, id}, err)
}

func (p *program) printSigned(what string, s recordSigned, err error) error {
	return show(p, s, err, func(s recordSigned) error { return p.Line("%s %s: signed by key %s", what, s.Digest, s.Key) })
}
