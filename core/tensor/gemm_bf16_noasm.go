//go:build !amd64 || purego

package tensor

// readsBF16 returns rounded: there are no instructions for pairs.
func readsBF16[F Float]() reading { return rounded }

func round[F Float](dst, src []F) { roundPlain(dst, src) }

const noPairs = "tensor: pairs of bfloat16 without instructions for them"

func packPairs[F Float](_ []F, _ int, _ []F, _, _, _ int) { panic(noPairs) }

func packPairsTransposed[F Float](_ []F, _ int, _ []F, _, _, _ int) { panic(noPairs) }

func pairLeft[F Float](_, _ Left[F], _, _ int) { panic(noPairs) }

func mulPairs[F Float](_, _, _, _ int, _ F, _ Left[F], _ []F, _ F, _ []F, _ int) { panic(noPairs) }
