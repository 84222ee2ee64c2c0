package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/workspace"
)

// layoutFlag lets a store command work on another OCI layout.
func layoutFlag() cli.Flag {
	return &cli.StringFlag{Name: "layout", Usage: "work on the OCI layout at `DIR` instead of the store"}
}

// trustFlags let a command choose what is trusted.
func trustFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "trust", Usage: "trust `FILE`, which then decides alone (default: trust.yaml in MM_HOME, narrowed by mm.yaml's)"},
		&cli.StringSliceFlag{Name: "key", Usage: "trust exactly this public key `FILE` for this command"},
	}
}

// skipFlag lets a command use what nobody vouches for.
func skipFlag() cli.Flag {
	return &cli.BoolFlag{Name: "insecure-skip-verify", Usage: "use the artifact although nobody vouches for it; printed and logged. Its bytes are hashed all the same"}
}

// claimFlags are those of commands that use an artifact.
func claimFlags() []cli.Flag { return append(trustFlags(), skipFlag()) }

// expectFlag is the user's word about a repository of another name.
func expectFlag() cli.Flag {
	return &cli.StringFlag{Name: "expect", Usage: "the repository is a mirror of `NAME`: what it holds is called that"}
}

// remoteFlags say how to speak to a registry.
func remoteFlags() []cli.Flag {
	return []cli.Flag{
		plainHTTPFlag(),
		&cli.BoolFlag{Name: "tls", Usage: "speak TLS to registries on this machine too"},
		&cli.StringFlag{Name: "ca-file", Usage: "trust the certificate authorities in `FILE` (PEM) as well"},
		&cli.DurationFlag{Name: "timeout", Usage: "give up after `TIME`, such as 10m", DefaultText: "never, while something moves"},
		&cli.IntFlag{Name: "parallel", Usage: "blobs in flight at a time", DefaultText: "4"},
	}
}

func plainHTTPFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "plain-http", Usage: "speak HTTP without TLS to `HOST[:PORT]` (loopback needs no flag)"}
}

// resolveFlags choose where references are looked up and how the lock counts.
func resolveFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "locked", Usage: "refuse any drift from the lock file"},
		&cli.BoolFlag{Name: "offline", Usage: "do not use the network"},
		plainHTTPFlag(),
	}
}

// workspaceOptions reads the flags above, as far as a command has them. anchor
// is the argument around which mm.yaml is looked for.
func workspaceOptions(c *cli.Context, anchor string) workspace.Options {
	return workspace.Options{
		Dir: workspace.Anchor(anchor), Trust: c.String("trust"), Keys: c.StringSlice("key"), Layout: c.String("layout"),
		Offline: c.Bool("offline"), PlainHTTP: c.StringSlice("plain-http"),
	}
}

// remoteOptions reads remoteFlags as well.
func remoteOptions(c *cli.Context, anchor string) workspace.Options {
	opt := workspaceOptions(c, anchor)
	opt.Parallel, opt.TLSLoopback, opt.CAFile, opt.Timeout = c.Int("parallel"), c.Bool("tls"), c.String("ca-file"), c.Duration("timeout")
	return opt
}

// claimOptions reads with what right an artifact is to be used.
func claimOptions(c *cli.Context) workspace.Claim {
	return workspace.Claim{Skip: c.Bool("insecure-skip-verify"), Expect: c.String("expect")}
}

// open opens a workspace that speaks to this program's user.
func (p *program) open(opt workspace.Options) (*workspace.Workspace, error) {
	if opt.Trust != "" {
		if _, err := os.Stat(opt.Trust); errors.Is(err, fs.ErrNotExist) {
			return nil, usageError{fmt.Errorf("no trust file at %s", opt.Trust)}
		}
	}
	opt.Say = func(s string) { p.say("mm: %s", s) }
	return workspace.Open(opt)
}
