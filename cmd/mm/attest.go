package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/builds/bom"
	"mm-abi.org/mm/eval"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
)

func (p *program) attest(c *cli.Context) error {
	if (c.String("type") == "") == (c.String("eval") == "") {
		return diag.Usagef("want --type or --eval")
	}
	if c.String("eval") != "" && c.String("predicate") != "" || c.String("eval") == "" && c.String("budgets") != "" {
		return diag.Usagef("--predicate belongs to --type, --budgets to --eval")
	}
	with, err := signerOptions(c)
	if err != nil {
		return err
	}
	o := attestOptions{arg: c.Args().First(), with: with, results: c.String("eval"), budgets: c.String("budgets")}
	if o.results == "" {
		if o.typ, err = workspace.PredicateType(c.String("type")); err != nil {
			return diag.Usage(err)
		}
		if file := c.String("predicate"); file != "" {
			if o.predicate, err = fsx.ReadFile(file, bom.MaxBill); err != nil {
				return err
			}
		}
	}
	return p.inWorkspace(workspace.Options{Layout: c.String("layout")}, func(w *workspace.Workspace) error { return p.attestOne(c.Context, w, o) })
}

// attestOptions are the options of mm attest.
type attestOptions struct {
	arg, typ         string
	with             signerFlags
	predicate        []byte
	results, budgets string
}

func (p *program) attestOne(ctx context.Context, w *workspace.Workspace, o attestOptions) error {
	at, err := w.Find(ctx, o.arg)
	if err != nil {
		return err
	}
	s, err := p.signerOf(ctx, w, o.with)
	if err != nil {
		return err
	}
	var done []sign.Signature
	if o.results == "" {
		done, err = w.Attest(ctx, at, o.typ, o.predicate, s)
	} else {
		var data []byte
		var kept []string
		if data, kept, err = eval.ReadResults(o.results, o.budgets); err == nil {
			done, err = w.AttestEval(ctx, at, data, kept, s)
		}
	}
	if err != nil {
		return err
	}
	return p.printSignatures(done)
}

func (p *program) sbom(c *cli.Context, w *workspace.Workspace, at *workspace.Located) error {
	data, err := w.Bill(c.Context, at, workspace.BillOptions{Target: c.String("target"), Format: c.String("format"), Supplier: c.String("supplier")})
	if err == nil {
		_, err = p.Stdout.Write(data)
	}
	return err
}

// requiredEvidence returns the predicate types of --require.
func requiredEvidence(list string) (types []string, err error) {
	if list == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		typ, err := workspace.PredicateType(name)
		if err != nil {
			return nil, diag.Usage(err)
		}
		types = append(types, typ)
	}
	return types, nil
}

func (p *program) promote(c *cli.Context, w *workspace.Workspace) error {
	opt := workspace.PromoteOptions{To: c.String("to"), Valid: c.Duration("valid"), Rollback: c.Bool("rollback")}
	if c.Bool("history") {
		list, err := w.History(c.Context, c.Args().First(), opt.To)
		return show(p, list, err, p.printVersions)
	}
	s, err := w.Signer(c.String("key"), p.password)
	if err != nil {
		return err
	}
	v, err := w.Promote(c.Context, c.Args().First(), s, opt)
	if err != nil {
		return err
	}
	return show(p, []workspace.ChannelVersion{*v}, nil, p.printVersions)
}

// printVersions prints versions of a channel, one a line.
func (p *program) printVersions(list []workspace.ChannelVersion) error {
	for _, v := range list {
		if _, err := fmt.Fprintln(p.Stdout, v); err != nil {
			return err
		}
	}
	return nil
}
