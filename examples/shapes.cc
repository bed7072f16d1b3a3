// SPDX-License-Identifier: Apache-2.0
//
// A little C++: virtual functions, templates, a standard container, an exception that passes
// through several frames. Ends by itself, for iprobe run:
//
//   IPROBE_PLACEMENT=inline iprobe-c++ -O2 -g shapes.cc -o shapes
//   iprobe run -- ./shapes 1000
//
// Functions show under the names that the source has; those that the compiler inlined show, too,
// in placement inline.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

namespace shapes
{

class Shape
{
      public:
	virtual ~Shape() = default;
	virtual double area() const = 0;
};

class Square : public Shape
{
	double side;

      public:
	explicit Square(double side) : side(side)
	{
	}
	double area() const override
	{
		return side * side;
	}
};

class Circle : public Shape
{
	double radius;

      public:
	explicit Circle(double radius) : radius(radius)
	{
		if (radius < 0)
			throw std::invalid_argument("a circle needs a radius");
	}
	double area() const override
	{
		return 3.14159265358979 * radius * radius;
	}
};

template <typename T> std::unique_ptr<Shape> make(double size)
{
	return std::make_unique<T>(size);
}

std::unique_ptr<Shape> choose(int i)
{
	switch (i % 3) {
	case 0:
		return make<Square>(i);
	case 1:
		return make<Circle>(i);
	default:
		return make<Circle>(-i);
	}
}

double total(const std::vector<std::unique_ptr<Shape>> &all)
{
	double sum = 0;

	for (const auto &shape : all)
		sum += shape->area();
	return sum;
}

} // namespace shapes

int main(int argc, char **argv)
{
	int count = argc > 1 ? std::atoi(argv[1]) : 100;
	int refused = 0;
	std::vector<std::unique_ptr<shapes::Shape>> all;

	for (int i = 0; i < count; i++) {
		try {
			all.push_back(shapes::choose(i));
		} catch (const std::invalid_argument &) {
			refused++;
		}
	}
	std::printf("%zu shapes, area %.1f, %d refused\n", all.size(), shapes::total(all), refused);
	return 0;
}
