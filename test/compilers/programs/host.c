/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the program of the matrix where that is a library: its main() is called forms_main(). Never
 * has probes itself. */
extern int forms_main(int argc, char **argv);

int main(int argc, char **argv)
{
	return forms_main(argc, argv);
}
