package drift

const MaxNoise = maxNoise

var Generable = generable
