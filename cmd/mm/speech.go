package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/train/dataset/sound"
)

func (p *program) dataSpeechAction(c *cli.Context) error {
	opt := sound.SpeechOptions{Dir: c.Args().First(), Seed: c.Uint64("seed"), Digits: c.Int("digits"), Words: c.Int("words"), Voices: c.StringSlice("voice"), Program: c.String("program")}
	if opt.Digits < 1 || opt.Digits > 100 || opt.Words < 1 || opt.Words > 100 {
		return usageError{fmt.Errorf("--digits %d, --words %d: must be from 1 to 100", opt.Digits, opt.Words)}
	}
	if opt.Reader = c.String("reader"); opt.Reader != "" && (c.IsSet("voice") || c.IsSet("digits") || c.IsSet("words") || c.IsSet("seed")) {
		return usageError{errors.New("--reader excludes --voice, --digits, --words and --seed")}
	}
	if c.Bool("flite") {
		opt.Flite = "flite"
	}
	pack, err := sound.Synthesize(c.Context, opt)
	if err != nil {
		return err
	}
	return p.printLine(pack, "%d takes, %.0f minutes of speech by %s in %s", pack.Takes, pack.Seconds/60, pack.Engine, pack.File)
}
