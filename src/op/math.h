// Elementary functions for the reference operators. They use only +, -, *, / and exact functions in a fixed order, so
// that native code and WASM compute the same bits, unlike with the C libraries. The relative error is below 1e-14;
// rounded to float, a result is at worst a neighbour of the exact value.
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
double tan(double x);
double asin(double x);  // NaN beyond -1..1
double acos(double x);
double atan(double x);
double atan2(double y, double x);
double sinh(double x);
double cosh(double x);
double asinh(double x);
double acosh(double x);  // NaN below 1
double atanh(double x);  // NaN beyond -1..1
double exp2(double x);
double erfc(double x);     // this and erfinv: relative error below 1e-12
double erfinv(double x);   // NaN beyond -1..1
double lgamma(double x);   // log |gamma(x)|; absolute error below 1e-14 near its zeros
double digamma(double x);  // the derivative of lgamma; as lgamma near its zeros
double i0(double x);       // the modified Bessel function of order 0
double pow(double x, double y);

}  // namespace qdq::math
