// Elementary functions for the reference operators. They use +, -, *, / and exact functions only, in a fixed order, so
// that the bits are the same natively and in WASM, which those of the C libraries are not. Relative error below 1e-14;
// rounded to float the result is the exact value's neighbour at worst.
#pragma once

namespace qdq::math {

double exp(double x);
double expm1(double x);
double log(double x);  // NaN below 0, -inf at 0
double log1p(double x);
double tanh(double x);
double erf(double x);
double sin(double x);  // |x| below 1e9
double cos(double x);
double pow(double x, double y);

}  // namespace qdq::math
