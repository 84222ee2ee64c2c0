package main

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble/compile"
	"mm-abi.org/mm/assemble/quantize"
	"mm-abi.org/mm/builds/servers"
	"mm-abi.org/mm/cmd/console"
	"mm-abi.org/mm/core/quant"
	"mm-abi.org/mm/eval/suite"
	"mm-abi.org/mm/lab/corpus/pii"
	"mm-abi.org/mm/lab/device"
	"mm-abi.org/mm/lab/farm"
	"mm-abi.org/mm/onnx/htp"
	"mm-abi.org/mm/runtimes/hosted"
	"mm-abi.org/mm/schemas"
	"mm-abi.org/mm/train/dataset/scene"
)

// commandText declares the commands; its head describes the form.
//
//go:embed commands.txt
var commandText string

//go:embed examples.txt
var exampleText string

// manual returns the writer of --help and of the manual pages.
func manual() console.Manual { return console.Manual{Examples: exampleText} }

// commands returns the commands of commands.txt with their actions.
func (p *program) commands() []*cli.Command {
	return console.Declarations{
		Actions: p.actions(), Words: vocabulary(), Bools: map[string]*bool{"json": &p.JSON, "quiet": &p.Quiet},
		Values: map[string]func(string) cli.Generic{
			"input": func(in string) cli.Generic { return saying{p, abi.Modality(in)} },
			"grant": func(string) cli.Generic { return &granting{&p.skills.Grants} },
		},
	}.Commands(commandText)
}

// vocabulary replaces the words of commands.txt that the program knows: lists of what its
// libraries support, and their defaults.
func vocabulary() *strings.Replacer {
	return strings.NewReplacer(
		"$(argument)", argumentMeaning,
		"$(axes)", strings.Join(htp.Axes(), ", "),
		"$(battery)", fmt.Sprint(device.MinBattery),
		"$(fewshot-seed)", fmt.Sprint(suite.DefaultSeed),
		"$(findings)", joined(pii.Kinds()),
		"$(forms)", strings.Join(hosted.Forms(), ", "),
		"$(methods)", strings.Join(quantize.Methods(), ", "),
		"$(precisions)", strings.Join(compile.Precisions(), ", "),
		"$(presets)", likes(),
		"$(queue)", farm.DefaultServer,
		"$(queue-age)", farm.DefaultAge.String(),
		"$(recipes)", strings.Join(quant.RecipeNames(), ", "),
		"$(scenes)", strings.Join(scene.AllKinds(), ", "),
		"$(schemas)", joined(schemas.Kinds()),
		"$(score)", fmt.Sprint(pii.DefaultScore),
		"$(servers)", joined(servers.Kinds()),
	)
}

// joined lists names.
func joined[T ~string](names []T) string {
	var all []string
	for _, n := range names {
		all = append(all, string(n))
	}
	return strings.Join(all, ", ")
}
